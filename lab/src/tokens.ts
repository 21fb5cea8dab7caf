/** What the plugins offer each other. */
import type { Cell, MarkdownCell } from '@jupyterlab/cells';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

import type { IActivityPage, TranscriptFormat } from './activityWire';
import type { INotebookDefaults } from './connections';
import type { ICellMark } from './contextMarks';
import type {
  ContextMode,
  IContextReport,
  IRunInputs,
  IStyles
} from './contextWire';
import type { Preview } from './preview';
import type { IAnswer, IPrompt, Role } from './promptModel';
import type {
  ICodexState,
  IKeys,
  IReverted,
  IRun,
  IRunAccepted,
  IRunEvents,
  IRunRequest,
  IServerStatus
} from './wire';

/** Commands and look-ups over the server's routes; failures are `RunError`s. */
export interface IRunClient {
  status(): Promise<IServerStatus>;
  submit(request: IRunRequest): Promise<IRunAccepted>;
  run(runId: string): Promise<IRun>;
  cancel(runId: string): Promise<void>;
  continueRun(runId: string): Promise<IRunAccepted>;
  /** The run's journal after an event; waits up to `wait` seconds for news. */
  events(runId: string, after: number, wait: number): Promise<IRunEvents>;
  /** Answer what a run asks for; `remember`: the same always in this notebook. */
  approve(
    runId: string,
    approvalId: string,
    answer: { allow: boolean; remember?: boolean }
  ): Promise<void>;
  /**
   * What happens in the runs one may see; waits up to `wait` seconds for news.
   *
   * @param after - Number of the last event; null to begin with things as they stand.
   */
  activity(after: number | null, wait: number): Promise<IActivityPage>;
  /** Pause AI in a notebook or folder; an empty path means the whole server. */
  pause(path: string, reason: string, stop: boolean): Promise<void>;
  resume(path: string): Promise<void>;
  /** The transcript of a run; null: of all runs below a path that one may see. */
  transcript(
    runId: string | null,
    format: TranscriptFormat,
    path?: string
  ): Promise<string>;
  /** Take back what a run changed; a dry run only says what that would be. */
  revert(runId: string, dryRun: boolean): Promise<IReverted>;
  /** What a run of the question would send; nothing is sent or written. */
  preview(request: IRunRequest): Promise<IContextReport>;
  /** Hashes of the cells that runs were built from. */
  inputs(runIds: readonly string[]): Promise<IRunInputs>;
  styles(): Promise<IStyles>;
  setStyle(name: string, wording: string): Promise<IStyles>;
  /** Remove a style of one's own, or one's own wording of ours. */
  removeStyle(name: string): Promise<IStyles>;
  keys(): Promise<IKeys>;
  setKey(connection: string, key: string): Promise<void>;
  removeKey(connection: string): Promise<void>;
  /** The account of the Codex connection; with `look` it is asked for its usage. */
  codex(look: boolean): Promise<ICodexState>;

  /** Begin to sign in to it. */
  codexSignIn(kind: 'browser' | 'device'): Promise<ICodexState>;

  /** Give signing in up. */
  codexCancel(): Promise<ICodexState>;

  /** Sign out. */
  codexDisconnect(): Promise<ICodexState>;

  setDefaultConnection(connection: string): Promise<void>;
}

export const IRunClient = new Token<IRunClient>(
  '@nbinline/lab:IRunClient',
  'Sends commands about runs, connections and keys to the server.'
);

/** What the server last said of its connections and models. */
export interface IServerModel {
  /** Null until the server has answered. */
  readonly status: IServerStatus | null;
  /** The same, without asking if nobody has asked yet. */
  readonly known: IServerStatus | null;
  /** Why there is no status, if asking failed. */
  readonly problem: string | null;
  readonly changed: ISignal<IServerModel, void>;
  /** Ask again; never rejects. */
  refresh(): Promise<void>;
}

export const IServerModel = new Token<IServerModel>(
  '@nbinline/lab:IServerModel',
  'Keeps what the server last said of its connections and models.'
);

export interface IPromptCell {
  readonly cell: MarkdownCell;
  readonly prompt: IPrompt;
}

export interface IAnswerCell {
  readonly cell: MarkdownCell;
  readonly answer: IAnswer;
}

export interface IRoleChange {
  readonly cell: MarkdownCell;
  readonly role: Role | null;
  readonly previous: Role | null;
}

/** Questions and answers of one open notebook, as its metadata has them. */
export interface INotebookPrompts extends IDisposable {
  readonly panel: NotebookPanel;
  /** A cell with a role came, its metadata changed, or it lost its role. */
  readonly changed: ISignal<INotebookPrompts, IRoleChange>;
  readonly disposed: ISignal<INotebookPrompts, void>;
  role(cell: Cell): Role | null;
  /** Cells with a role, in no particular order. */
  cells(): Iterable<readonly [MarkdownCell, Role]>;
  prompt(promptId: string): IPromptCell | null;
  /** The answer to show beside the question. */
  answerTo(promptId: string): IAnswerCell | null;
  answerOfRun(runId: string): IAnswerCell | null;
}

/** The questions and answers of all open notebooks. */
export interface IPromptTracker {
  readonly notebooks: Iterable<INotebookPrompts>;
  readonly added: ISignal<IPromptTracker, INotebookPrompts>;
  /** Follow one more notebook until it is closed. */
  add(panel: NotebookPanel): void;
  of(notebook: Notebook | null | undefined): INotebookPrompts | null;
  ofCell(cell: Cell): INotebookPrompts | null;
}

export const IPromptTracker = new Token<IPromptTracker>(
  '@nbinline/lab:IPromptTracker',
  'Follows questions and answers in the open notebooks.'
);

/** What only this page knows of a question. */
export type LocalPhase =
  | { readonly kind: 'waiting' }
  | { readonly kind: 'sending' }
  | {
      readonly kind: 'failed';
      readonly code: string;
      readonly message: string;
    };

/** Runs questions and waits for them. */
export interface IRunController {
  /** The local phase of a question changed; the argument is its cell id. */
  readonly phaseChanged: ISignal<IRunController, string>;
  phase(promptId: string): LocalPhase | null;
  /** Say that the question waits for cells before it; null ends that. */
  setPhase(promptId: string, phase: LocalPhase | null): void;
  /**
   * Run a question and wait until its run has ended.
   *
   * @returns Whether the cells after it may run. Failures are shown to the person.
   */
  run(cell: MarkdownCell): Promise<boolean>;
  /** End the run of a question or an answer. */
  stop(cell: MarkdownCell): Promise<void>;
  /** Go on from a partial answer. */
  continueAnswer(cell: MarkdownCell): Promise<boolean>;
  /** A question that waits its turn in this page: released or withdrawn. */
  readonly queued: Map<string, IQueuedPrompt>;
}

export interface IQueuedPrompt {
  /** Do not wait for the cells before it any longer. */
  release(): void;
  /** Do not run it, nor what comes after it. */
  withdraw(): void;
}

export const IRunController = new Token<IRunController>(
  '@nbinline/lab:IRunController',
  'Runs questions and waits for them.'
);

/** Whether runs that the document calls running really live. */
export interface ILiveness {
  readonly changed: ISignal<ILiveness, MarkdownCell>;
  /** True if neither presence nor server know the run: show "interrupted?". */
  isDoubtful(cell: MarkdownCell): boolean;
}

export const ILiveness = new Token<ILiveness>(
  '@nbinline/lab:ILiveness',
  'Tells runs that are really going on from marks left behind.'
);

/** Whether what answers were made from has changed since. */
export interface IStaleness {
  /** An answer is seen in another light; the argument is its run. */
  readonly changed: ISignal<IStaleness, string>;
  /** Cells that a run was made from and that have changed, or are gone. */
  changedCells(
    prompts: INotebookPrompts,
    runId: string | null
  ): ReadonlySet<string>;
}

export const IStaleness = new Token<IStaleness>(
  '@nbinline/lab:IStaleness',
  'Follows whether what answers were made from has changed.'
);

/** Says things to screen readers. */
export interface IAnnouncer {
  say(message: string): void;
}

export const IAnnouncer = new Token<IAnnouncer>(
  '@nbinline/lab:IAnnouncer',
  'Says the start, end and failure of runs to screen readers.'
);

/** What the question that a person looks at would send, in one notebook. */
export interface INotebookContext {
  readonly prompts: INotebookPrompts;
  readonly preview: Preview;
  /** The target, what is shown, or what the server says of it changed. */
  readonly changed: ISignal<INotebookContext, void>;
  /** Cell id of the question; the last one that was selected. */
  readonly target: string | null;
  readonly defaults: INotebookDefaults;
  readonly mode: ContextMode;
  /** The mode that the server prescribes, if it does. */
  readonly forcedMode: ContextMode | null;
  detailsOpen: boolean;
  /** Whether the boxes of cells are shown without Details. */
  boxesAlways: boolean;
  readonly boxesShown: boolean;
  /** What becomes of each cell; null before the server has said. */
  readonly marks: ReadonlyMap<string, ICellMark> | null;
  /** Write the mode; Custom for the first time starts with what was selected. */
  chooseMode(mode: ContextMode): Promise<void>;
}

/** The contexts of all open notebooks. */
export interface INotebookContexts {
  readonly added: ISignal<INotebookContexts, INotebookContext>;
  readonly all: Iterable<INotebookContext>;
  of(prompts: INotebookPrompts): INotebookContext | null;
  /** Call back for every open notebook, now and later. */
  forEach(callback: (context: INotebookContext) => void): void;
}

export const INotebookContexts = new Token<INotebookContexts>(
  '@nbinline/lab:INotebookContexts',
  'Knows what the questions of open notebooks would send.'
);
