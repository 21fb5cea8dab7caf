/** What the activity panel knows, put together from the server's feed. Pure. */
import type {
  IActivityEvent,
  IActivityPage,
  IActivityRun,
  IPause,
  IPerson
} from './activityWire';
import { isActive } from './wire';
import type { RunStatus } from './wire';

/** One run as people watch it. */
export interface IWatchedRun {
  readonly runId: string;
  readonly path: string;
  readonly author: IPerson | null;
  readonly model: string;
  readonly status: RunStatus;
  readonly promptId: string | null;
  readonly answerId: string | null;
  /** What it does right now, in words; null between its calls. */
  readonly doing: string | null;
  /** The cell it works on; null: on its answer. */
  readonly cellId: string | null;
  /** The tool it asks a person to allow. */
  readonly asks: string | null;
  /** When something happened in it last (ISO 8601). */
  readonly at: string;
}

export interface IActivity {
  readonly runs: ReadonlyMap<string, IWatchedRun>;
  readonly pauses: readonly IPause[];
  readonly lastSeq: number | null;
}

export const NOTHING_YET: IActivity = {
  runs: new Map(),
  pauses: [],
  lastSeq: null
};

/** Ended runs that are kept in sight. */
export const MOST_ENDED = 50;

/** What is known after one more answer of the server. */
export function withPage(before: IActivity, page: IActivityPage): IActivity {
  const anew = page.runs !== undefined;
  const runs = new Map(anew ? [] : before.runs);
  for (const run of page.runs ?? []) {
    runs.set(run.run_id, ofRun(run));
  }
  let pauses = page.pauses ?? before.pauses;
  for (const event of page.events) {
    if (event.run_id !== undefined) {
      runs.set(event.run_id, ofEvent(runs.get(event.run_id), event));
    } else if (event.type === 'paused' || event.type === 'resumed') {
      const pause = event.data as unknown as IPause;
      pauses = pauses.filter(each => each.path !== pause.path);
      if (event.type === 'paused') {
        pauses = [...pauses, pause];
      }
    }
  }
  return { runs: bounded(runs), pauses, lastSeq: page.last_seq };
}

/** Runs that go on, the latest news first. */
export function liveRuns({ runs }: IActivity): IWatchedRun[] {
  return newestFirst([...runs.values()].filter(run => isActive(run.status)));
}

/** Runs that are over, the latest first. */
export function endedRuns({ runs }: IActivity): IWatchedRun[] {
  return newestFirst([...runs.values()].filter(run => !isActive(run.status)));
}

function ofRun(run: IActivityRun): IWatchedRun {
  const waiting = run.approvals?.find(each => each.answer === null);
  return {
    runId: run.run_id,
    path: run.path,
    author: run.author ?? null,
    model: run.model ?? '',
    // The record may be older than the server that would work on it.
    status:
      run.live === false && isActive(run.status) ? 'interrupted' : run.status,
    promptId: run.prompt_cell_id || null,
    answerId: run.answer_cell_id || null,
    doing: null,
    cellId: null,
    asks: waiting?.tool ?? null,
    at: run.ended_at ?? run.created_at ?? ''
  };
}

function ofEvent(
  before: IWatchedRun | undefined,
  event: IActivityEvent
): IWatchedRun {
  const { data } = event;
  const known: IWatchedRun = {
    runId: event.run_id ?? '',
    path: event.path ?? before?.path ?? '',
    author: event.author ?? before?.author ?? null,
    model: event.model ?? before?.model ?? '',
    status: statusOf(event) ?? before?.status ?? 'queued',
    promptId: event.prompt_cell_id || before?.promptId || null,
    answerId: event.answer_cell_id || before?.answerId || null,
    doing: before?.doing ?? null,
    cellId: before?.cellId ?? null,
    asks: before?.asks ?? null,
    at: event.at
  };
  switch (event.type) {
    case 'tool-called':
      return { ...known, doing: text(data.name), cellId: text(data.cell_id) };
    case 'progress':
      return { ...known, doing: text(data.text) };
    case 'tool-finished':
      return { ...known, doing: null };
    case 'approval':
      return {
        ...known,
        asks: data.answer ? null : text(data.tool),
        cellId: text(data.cell_id) ?? known.cellId
      };
    case 'status':
      return isActive(known.status) && known.status !== 'streaming'
        ? known
        : { ...known, doing: null, cellId: null, asks: null };
    default:
      return known;
  }
}

/** What the event says itself is newer than the run that comes with it. */
function statusOf({ type, data, status }: IActivityEvent): RunStatus | null {
  const said = type === 'status' ? text(data.status) : null;
  return (said as RunStatus | null) ?? status ?? null;
}

function bounded(runs: Map<string, IWatchedRun>): Map<string, IWatchedRun> {
  const ended = newestFirst(
    [...runs.values()].filter(run => !isActive(run.status))
  );
  for (const run of ended.slice(MOST_ENDED)) {
    runs.delete(run.runId);
  }
  return runs;
}

function newestFirst(runs: IWatchedRun[]): IWatchedRun[] {
  return runs.sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}
