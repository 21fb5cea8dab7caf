/** What the asker saw when they pressed Run, for the server's barrier. */
import { sha256 } from '@noble/hashes/sha2';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils';

/** Base64 of bytes. */
export function base64(bytes: Uint8Array): string {
  let binary = '';
  for (const byte of bytes) {
    binary += String.fromCharCode(byte);
  }
  return btoa(binary);
}

/**
 * Hexadecimal SHA-256 of a text in UTF-8.
 *
 * Not the browser's own: pages served over plain HTTP do not have it.
 */
export function sourceDigest(source: string): string {
  return bytesToHex(sha256(utf8ToBytes(source)));
}
