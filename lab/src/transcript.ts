/** What a run did, step by step, read out of its journal. Pure. */
import type { IDiffLine } from './approval';
import type { IRunEvent } from './wire';

export type StepOutcome = 'running' | 'ok' | 'error' | 'denied' | 'cancelled';

/** One tool call. */
export interface IStep {
  readonly callId: string;
  readonly name: string;
  readonly cellIds: readonly string[];
  /** As JSON, bounded. */
  readonly arguments: string;
  /** What an edit takes away and puts in, if the call says it. */
  readonly diff: readonly IDiffLine[] | null;
  readonly outcome: StepOutcome;
  readonly seconds: number | null;
  readonly summary: string;
}

/** More text than this of one value is not shown (UTF-16 units). */
export const LONGEST = 2000;

const OUTCOMES: ReadonlySet<unknown> = new Set([
  'ok',
  'error',
  'denied',
  'cancelled'
]);

/**
 * The tool calls of a run, in order.
 *
 * @param events - The journal of the run, from its beginning.
 */
export function steps(events: readonly IRunEvent[]): IStep[] {
  const found = new Map<string, IStep>();
  for (const event of events) {
    const callId = text(event.call_id);
    if (event.type === 'tool-called') {
      found.set(callId, {
        callId,
        name: text(event.name),
        cellIds: cellsOf(event),
        arguments: readable(event.arguments),
        diff: editDiff(text(event.name), event.arguments),
        outcome: 'running',
        seconds: null,
        summary: ''
      });
    } else if (event.type === 'tool-finished') {
      found.set(callId, finished(found.get(callId), event, callId));
    }
  }
  return [...found.values()];
}

function finished(
  called: IStep | undefined,
  event: IRunEvent,
  callId: string
): IStep {
  const cellIds = cellsOf(event);
  return {
    callId,
    name: called?.name || text(event.name),
    cellIds: cellIds.length > 0 ? cellIds : (called?.cellIds ?? []),
    arguments: called?.arguments ?? '',
    diff: called?.diff ?? null,
    outcome: OUTCOMES.has(event.outcome)
      ? (event.outcome as StepOutcome)
      : 'error',
    seconds: typeof event.seconds === 'number' ? event.seconds : null,
    summary: bounded(text(event.summary))
  };
}

/** Arguments of edits that hold text that goes away, and text that comes. */
const GOES = ['old_str', 'expected_source'];
const COMES = ['new_str', 'new_source', 'new_content', 'content', 'contents'];

/**
 * The lines that an edit takes away and puts in, as its arguments have them.
 *
 * @returns Null for what is no edit, or does not say.
 */
export function editDiff(name: string, value: unknown): IDiffLine[] | null {
  let known: unknown = value;
  try {
    known = typeof value === 'string' ? JSON.parse(value) : value;
  } catch {
    // Long arguments are cut in the journal.
    return null;
  }
  if (!/insert|replace|delete|create/.test(name) || !isRecord(known)) {
    return null;
  }
  const lines: IDiffLine[] = [];
  const put = (keys: string[], kind: 'removed' | 'added', sign: string): void =>
    keys.forEach(key => {
      const said = text((known as Record<string, unknown>)[key]);
      // A hash stands for a text that is not repeated; of others no more than what differs.
      const whole =
        key === 'expected_source' && !/^(replace|delete)_cell$/.test(name);
      if (said !== '' && !said.startsWith('sha256:') && !whole) {
        const each = said.replace(/\n$/, '').split('\n');
        lines.push(...each.map(line => ({ kind, text: `${sign}${line}` })));
      }
    });
  put(GOES, 'removed', '-');
  put(COMES, 'added', '+');
  return lines.length > 0 ? lines : null;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function cellsOf(event: IRunEvent): string[] {
  const many: unknown[] = Array.isArray(event.cell_ids) ? event.cell_ids : [];
  return [event.cell_id, ...many].filter(
    (each): each is string => typeof each === 'string' && each !== ''
  );
}

/** Arguments on lines of their own; those that are one value only, bare. */
function readable(value: unknown): string {
  let known = value;
  if (typeof value === 'string') {
    try {
      known = JSON.parse(value);
    } catch {
      return bounded(value);
    }
  }
  if (typeof known !== 'object' || known === null) {
    return known === undefined || known === null ? '' : bounded(String(known));
  }
  const lines = Object.entries(known).map(([name, each]) => {
    const told = typeof each === 'string' ? each : JSON.stringify(each);
    return told.includes('\n') ? `${name}:\n${told}` : `${name}: ${told}`;
  });
  return bounded(lines.join('\n'));
}

function bounded(value: string): string {
  return value.length > LONGEST ? `${value.slice(0, LONGEST)}…` : value;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
