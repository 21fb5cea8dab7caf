/** What the plugins offer each other. */
import type { Cell, MarkdownCell } from '@jupyterlab/cells';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

import type { IAnswer, IPrompt, Role } from './promptModel';
import type {
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
  /** Take back what a run changed; a dry run only says what that would be. */
  revert(runId: string, dryRun: boolean): Promise<IReverted>;
  keys(): Promise<IKeys>;
  setKey(connection: string, key: string): Promise<void>;
  removeKey(connection: string): Promise<void>;
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

/** Says things to screen readers. */
export interface IAnnouncer {
  say(message: string): void;
}

export const IAnnouncer = new Token<IAnnouncer>(
  '@nbinline/lab:IAnnouncer',
  'Says the start, end and failure of runs to screen readers.'
);
