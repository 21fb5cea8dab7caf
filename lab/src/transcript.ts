/** What a run did, step by step, read out of its journal. Pure. */
import type { IRunEvent } from './wire';

export type StepOutcome = 'running' | 'ok' | 'error' | 'denied' | 'cancelled';

/** One tool call. */
export interface IStep {
  readonly callId: string;
  readonly name: string;
  readonly cellIds: readonly string[];
  /** As JSON, bounded. */
  readonly arguments: string;
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
    outcome: OUTCOMES.has(event.outcome)
      ? (event.outcome as StepOutcome)
      : 'error',
    seconds: typeof event.seconds === 'number' ? event.seconds : null,
    summary: bounded(text(event.summary))
  };
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
