/** What an approval card says. Pure. */

export type DiffKind = 'added' | 'removed' | 'place' | 'same' | 'cell';

export interface IDiffLine {
  readonly kind: DiffKind;
  readonly text: string;
  /** Of the kind `place`: the first line that follows, counted from 1. */
  readonly line?: number;
}

/** More lines than this are not shown; the rest is counted. */
export const MOST_LINES = 400;

/**
 * The lines of a unified diff. Where it is of several cells, each begins with a line of the
 * kind `cell`; of one alone the card says before which it is.
 *
 * @param cellName - How people call a cell.
 * @returns The lines to show and how many more there are.
 */
export function diffLines(
  diff: string,
  cellName: (cellId: string) => string = cellId => cellId
): { lines: IDiffLine[]; more: number } {
  const found: IDiffLine[] = [];
  let old = 0;
  let fresh = 0;
  for (const line of diff.replace(/\n$/, '').split('\n')) {
    if (old <= 0 && fresh <= 0) {
      // Between hunks, lines are headers, whatever they begin with.
      const hunk = HUNK.exec(line);
      if (line.startsWith('+++ ')) {
        found.push({ kind: 'cell', text: cellName(line.slice(4).trim()) });
      } else if (hunk !== null) {
        const first = Number(hunk[2]);
        if (first > 1) {
          found.push({ kind: 'place', text: line, line: first });
        }
      } else if (line !== '' && !line.startsWith('--- ')) {
        found.push({ kind: kindOf(line), text: line });
      }
      old = hunk ? Number(hunk[1] ?? 1) : 0;
      fresh = hunk ? Number(hunk[3] ?? 1) : 0;
      continue;
    }
    const kind = kindOf(line);
    old -= kind === 'added' ? 0 : 1;
    fresh -= kind === 'removed' ? 0 : 1;
    found.push({ kind, text: line });
  }
  const several = found.filter(each => each.kind === 'cell').length > 1;
  const lines = several ? found : found.filter(each => each.kind !== 'cell');
  return {
    lines: lines.slice(0, MOST_LINES),
    more: Math.max(0, lines.length - MOST_LINES)
  };
}

const HUNK = /^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

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
