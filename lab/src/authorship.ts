/** Who had what written by which model, as cells say it. Pure: reads and makes plain values. */

/** Who a cell says has had it written or edited. */
export interface IAuthorship {
  readonly runId: string | null;
  /** Username. */
  readonly author: string | null;
  /** What that person was called. */
  readonly authorName: string | null;
  readonly model: string | null;
  /** ISO 8601. */
  readonly at: string | null;
  /** Whether the agent made the cell, and not only edited it. */
  readonly made: boolean;
}

/** What is said of people and runs (twin of the server's `publishing` module). */
const AUTHORSHIP: ReadonlySet<string> = new Set([
  'runId',
  'author',
  'authorName',
  'model',
  'backend',
  'endedAt',
  'error',
  'approvalId',
  'inputsSha256',
  'contextTrimmed',
  'secretsLeftOut',
  'editedBy'
]);

/** Of these, what stands on a question is a choice, and tells nothing of a run. */
const CHOICES: ReadonlySet<string> = new Set(['model', 'backend']);

/** Which run has edited an ordinary cell last; null if none has. */
export function readEdited(metadata: unknown): IAuthorship | null {
  const edited = isObject(metadata) ? metadata.editedBy : null;
  return isObject(edited)
    ? { ...read(edited, 'at'), made: edited.made === true }
    : null;
}

/** Which run has written an answer. */
export function readWritten(metadata: unknown): IAuthorship | null {
  return isObject(metadata) && metadata.isOutputCell === true
    ? { ...read(metadata, 'endedAt'), made: true }
    : null;
}

function read(
  mark: Record<string, unknown>,
  time: string
): Omit<IAuthorship, 'made'> {
  return {
    runId: text(mark.runId),
    author: text(mark.author),
    authorName: text(mark.authorName),
    model: text(mark.model),
    at: text(mark[time])
  };
}

/**
 * Metadata of ours without authorship.
 *
 * @returns Undefined if nothing would be left; the same value if there is none to take out.
 */
export function withoutAuthorship(metadata: unknown): unknown {
  if (!isObject(metadata)) {
    return metadata;
  }
  const isPrompt = metadata.isPromptCell === true;
  const kept = Object.entries(metadata).filter(
    ([key]) => !AUTHORSHIP.has(key) || (isPrompt && CHOICES.has(key))
  );
  if (kept.length === Object.keys(metadata).length) {
    return metadata;
  }
  return kept.length > 0 ? Object.fromEntries(kept) : undefined;
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
