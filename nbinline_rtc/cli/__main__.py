"""``python -m nbinline_rtc.cli``."""

from . import main

main()
