/**
 * Hashes of what an answer was made from; the server makes the same ones
 * (`agent/nbinline_agent/context/inputs.py`). Pure.
 */
import { sha256 } from '@noble/hashes/sha2';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils';

/** Hexadecimal digits of a hash. */
const LENGTH = 16;

/** Whether a cell's hash covers its outputs as well. */
export function coversOutputs(hash: string): boolean {
  return hash.includes('.');
}

/**
 * Hash of a cell.
 *
 * @param outputs - As in nbformat; null if they do not count.
 */
export function cellHash(
  source: string,
  outputs: readonly unknown[] | null
): string {
  const own = short(source);
  return outputs === null ? own : `${own}.${short(outputsText(outputs))}`;
}

/** What outputs show, as one text, however streams are cut. */
export function outputsText(outputs: readonly unknown[]): string {
  const parts: string[] = [];
  let last = '';
  for (const output of outputs) {
    if (!isObject(output)) {
      continue;
    }
    const kind = output.output_type;
    if (kind === 'stream') {
      const name = `stream ${text(output.name)}`;
      if (last !== name) {
        parts.push(`\0${name}\0`);
      }
      last = name;
      parts.push(text(output.text));
      continue;
    }
    last = '';
    if (kind === 'error') {
      parts.push(`\0error\0${text(output.ename)}\0${text(output.evalue)}`);
    } else if (kind === 'display_data' || kind === 'execute_result') {
      parts.push(...bundle(output.data));
    }
  }
  return parts.join('');
}

function bundle(data: unknown): string[] {
  const parts = ['\0data'];
  if (!isObject(data)) {
    return parts;
  }
  for (const type of Object.keys(data).sort()) {
    const content = text(data[type]);
    if (type.startsWith('text/') || type === 'image/svg+xml') {
      parts.push(`\0${type}\0${content}`);
    } else {
      const told = type.startsWith('image/') ? String(content.length) : '';
      parts.push(`\0${type}\0${told}`);
    }
  }
  return parts;
}

function text(value: unknown): string {
  if (typeof value === 'string') {
    return value;
  }
  return Array.isArray(value)
    ? value.filter(part => typeof part === 'string').join('')
    : '';
}

function short(value: string): string {
  return bytesToHex(sha256(utf8ToBytes(value))).slice(0, LENGTH);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
