#!/usr/bin/env bash
# What the browser tests need of the system: a Chromium and fonts for what answers hold.
# Root gets Debian's packages where they are missing; anybody else is told what to install.
source "$(dirname "$0")/setup.sh"

PACKAGES=(chromium fonts-dejavu-core fonts-noto-color-emoji git)

chromium_there() { command -v "${NBINLINE_CHROMIUM:-chromium}" >/dev/null 2>&1; }
packages_there() { dpkg-query -W -f '${Status}\n' "${PACKAGES[@]}" 2>/dev/null | grep -c '^install ok installed$'; }

if chromium_there && { ! command -v dpkg-query >/dev/null 2>&1 || [ "$(packages_there)" = "${#PACKAGES[@]}" ]; }; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  say "Installing ${PACKAGES[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${PACKAGES[@]}" >/dev/null
fi
chromium_there || stop "the browser tests need Chromium. Install it (Debian: sudo apt-get install ${PACKAGES[*]}), or name one in NBINLINE_CHROMIUM, and run make test again."
