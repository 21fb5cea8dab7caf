/**
 * What the metadata of cells says of questions and answers. Pure: reads plain values,
 * never writes.
 */
import { isActive } from './wire';
import type { AnswerStatus, RunStatus } from './wire';

/** A Markdown cell that is a question. */
export interface IPrompt {
  readonly kind: 'prompt';
  /** Connection chosen for this question; null: the notebook's or server's default. */
  readonly backend: string | null;
  readonly model: string | null;
  /** Style of the answer. */
  readonly promptMode: string | null;
  readonly reasoningEffort: string | null;
  /** Null: as the notebook says. */
  readonly keepAnswer: boolean | null;
}

/** A Markdown cell that is the answer to a question. */
export interface IAnswer {
  readonly kind: 'answer';
  readonly promptId: string;
  /** Null if the metadata names no status we know. */
  readonly status: AnswerStatus | null;
  readonly runId: string | null;
  /** Username of the person who asked. */
  readonly author: string | null;
  /** What that person was called. */
  readonly authorName: string | null;
  readonly model: string | null;
  readonly connection: string | null;
  readonly endedAt: string | null;
  /** Something else the run did that people should know, as a code. */
  readonly note: string | null;
  /** Whether it says what it was made from. */
  readonly hasInputs: boolean;
  /** Whether something that could have gone along did not fit. */
  readonly trimmed: boolean;
  /** Keys and passwords that were kept from the model. */
  readonly secretsLeftOut: number;
  /** What the run waits for a person to allow, if it does. */
  readonly approvalId: string | null;
  readonly error: { readonly code: string; readonly message: string } | null;
}

export type Role = IPrompt | IAnswer;

const STATUSES: ReadonlySet<string> = new Set([
  'queued',
  'running',
  'done',
  'error',
  'cancelled',
  'interrupted'
]);

/**
 * Read what a cell is to us.
 *
 * @param cellType - nbformat's cell type; only Markdown cells have a role.
 * @param metadata - The value of `metadata.nbinlineai`, whatever it is.
 */
export function readRole(cellType: string, metadata: unknown): Role | null {
  if (cellType !== 'markdown' || !isObject(metadata)) {
    return null;
  }
  if (metadata.isOutputCell === true) {
    const promptId = text(metadata.promptCellId);
    return promptId === null ? null : readAnswer(promptId, metadata);
  }
  if (metadata.isPromptCell === true) {
    return {
      kind: 'prompt',
      backend: text(metadata.backend),
      model: text(metadata.model),
      promptMode: text(metadata.promptMode),
      reasoningEffort: text(metadata.reasoningEffort),
      keepAnswer:
        typeof metadata.keepAnswer === 'boolean' ? metadata.keepAnswer : null
    };
  }
  return null;
}

function readAnswer(
  promptId: string,
  metadata: Record<string, unknown>
): IAnswer {
  const { status, error } = metadata;
  return {
    kind: 'answer',
    promptId,
    status:
      typeof status === 'string' && STATUSES.has(status)
        ? (status as AnswerStatus)
        : null,
    runId: text(metadata.runId),
    author: text(metadata.author),
    authorName: text(metadata.authorName),
    model: text(metadata.model),
    connection: text(metadata.connection) ?? text(metadata.backend),
    endedAt: text(metadata.endedAt),
    note: text(metadata.note),
    hasInputs: text(metadata.inputsSha256) !== null,
    trimmed: metadata.contextTrimmed === true,
    secretsLeftOut:
      typeof metadata.secretsLeftOut === 'number' ? metadata.secretsLeftOut : 0,
    approvalId: text(metadata.approvalId),
    error:
      isObject(error) && typeof error.message === 'string'
        ? { code: text(error.code) ?? 'error', message: error.message }
        : null
  };
}

/** Whether a model wrote a cell's text, or some of it, whatever is in its metadata. */
export function isAgentWritten(metadata: unknown): boolean {
  return (
    isObject(metadata) &&
    (metadata.isOutputCell === true || isObject(metadata.editedBy))
  );
}

/** Whether the document says that the answer is still being written. */
export function isRunning(answer: IAnswer | null): boolean {
  return answer !== null && answer.status !== null && isActive(answer.status);
}

/** Whether going on from the answer makes sense. */
export function canContinue(answer: IAnswer): boolean {
  return answer.runId !== null && hasFailed(answer);
}

/** Whether the run ended before its answer was whole. */
export function hasFailed({ status }: IAnswer): boolean {
  return (
    status === 'error' || status === 'cancelled' || status === 'interrupted'
  );
}

/**
 * Whether this person may ask to take back what the run changed.
 *
 * @param features - What the server can do.
 */
export function canRevert(
  answer: IAnswer,
  user: string | null,
  features: readonly string[]
): boolean {
  return (
    features.includes('revert') &&
    answer.runId !== null &&
    answer.status !== null &&
    !isRunning(answer) &&
    user !== null &&
    answer.author === user
  );
}

/** Whether a run that ended with this status lets the cells after it run. */
export function isSuccess(status: RunStatus): boolean {
  return status === 'done';
}

/**
 * Of several answers to one question, the one to show beside it: the running one, else
 * the last in the notebook.
 */
export function answerToShow<T extends { readonly answer: IAnswer }>(
  answers: readonly T[]
): T | null {
  return (
    answers.find(each => isRunning(each.answer)) ??
    answers[answers.length - 1] ??
    null
  );
}

/** Two roles that say the same. */
export function sameRole(a: Role | null, b: Role | null): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
