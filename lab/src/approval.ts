/** What an approval card says. Pure. */

export type DiffKind = 'added' | 'removed' | 'place' | 'same';

export interface IDiffLine {
  readonly kind: DiffKind;
  readonly text: string;
}

/** More lines than this are not shown; the rest is counted. */
export const MOST_LINES = 400;

/**
 * The lines of a unified diff without its file names.
 *
 * @returns The lines to show and how many more there are.
 */
export function diffLines(diff: string): { lines: IDiffLine[]; more: number } {
  const all = diff.replace(/\n$/, '').split('\n');
  // File names stand before the first hunk only.
  const begin = all.findIndex(line => line.startsWith('@@'));
  const lines = all.slice(Math.max(0, begin)).map(line => ({
    kind: kindOf(line),
    text: line
  }));
  return {
    lines: lines.slice(0, MOST_LINES),
    more: Math.max(0, lines.length - MOST_LINES)
  };
}

function kindOf(line: string): DiffKind {
  switch (line[0]) {
    case '+':
      return 'added';
    case '-':
      return 'removed';
    case '@':
      return 'place';
    default:
      return 'same';
  }
}

/**
 * Whole seconds until a time.
 *
 * @param expiresAt - ISO 8601.
 * @param now - Milliseconds since the epoch.
 * @returns Null if there is no such time; never below zero.
 */
export function secondsLeft(
  expiresAt: string | null | undefined,
  now: number
): number | null {
  const at = expiresAt ? Date.parse(expiresAt) : NaN;
  return Number.isNaN(at) ? null : Math.max(0, Math.ceil((at - now) / 1000));
}
