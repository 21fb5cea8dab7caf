/** Runs questions and waits for them. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { MarkdownCell } from '@jupyterlab/cells';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { asked } from './asked';
import { CommandIDs } from './commandIds';
import { concernsKeys, RunError } from './errors';
import { isRunning, isSuccess } from './promptModel';
import { IPromptTracker, IRunClient, IRunController } from './tokens';
import type { INotebookPrompts, IQueuedPrompt, LocalPhase } from './tokens';
import { isActive } from './wire';
import type { RunStatus } from './wire';

/** Time between look-ups of a run in case its end never shows in the document. */
const LOOK_UP_INTERVAL = 5000;

/** Time for the document to catch up before a refused run is sent once more. */
const CATCH_UP_DELAY = 1500;

export class RunController implements IRunController {
  constructor(options: RunController.IOptions) {
    this._client = options.client;
    this._tracker = options.tracker;
    this._openKeys = options.openKeys;
    this._trans = options.trans;
  }

  readonly queued = new Map<string, IQueuedPrompt>();

  get phaseChanged(): ISignal<IRunController, string> {
    return this._phaseChanged;
  }

  phase(promptId: string): LocalPhase | null {
    return this._phases.get(promptId) ?? null;
  }

  setPhase(promptId: string, phase: LocalPhase | null): void {
    if (phase) {
      this._phases.set(promptId, phase);
    } else {
      this._phases.delete(promptId);
    }
    this._phaseChanged.emit(promptId);
  }

  async run(cell: MarkdownCell): Promise<boolean> {
    const promptId = cell.model.id;
    const prompts = this._tracker.ofCell(cell);
    if (!prompts) {
      return false;
    }
    this.setPhase(promptId, { kind: 'sending' });
    let runId: string;
    try {
      runId = await this._submit(prompts, cell);
    } catch (reason) {
      return this._refused(promptId, reason);
    }
    return this._ended(prompts, promptId, runId);
  }

  async stop(cell: MarkdownCell): Promise<void> {
    const prompts = this._tracker.ofCell(cell);
    const role = prompts?.role(cell);
    if (!prompts || !role) {
      return;
    }
    const promptId = role.kind === 'prompt' ? cell.model.id : role.promptId;
    this.queued.get(promptId)?.withdraw();
    const answer =
      role.kind === 'answer' ? role : prompts.answerTo(promptId)?.answer;
    const runId =
      answer && isRunning(answer)
        ? answer.runId
        : (this._submitted.get(promptId) ?? null);
    if (runId === null) {
      return;
    }
    try {
      await this._client.cancel(runId);
    } catch (reason) {
      this._show(reason);
    }
  }

  async continueAnswer(cell: MarkdownCell): Promise<boolean> {
    const prompts = this._tracker.ofCell(cell);
    const role = prompts?.role(cell);
    if (!prompts || role?.kind !== 'answer' || role.runId === null) {
      return false;
    }
    this.setPhase(role.promptId, { kind: 'sending' });
    let runId: string;
    try {
      runId = (await this._client.continueRun(role.runId)).run_id;
    } catch (reason) {
      return this._refused(role.promptId, reason);
    }
    return this._ended(prompts, role.promptId, runId);
  }

  /** Send the question as it stands now; once more if the server was behind. */
  private async _submit(
    prompts: INotebookPrompts,
    cell: MarkdownCell
  ): Promise<string> {
    // Shift+Enter on the last cell adds another in this very task. The server must have that one
    // before it puts the answer at the same place, or chance orders the two.
    await new Promise(resolve => setTimeout(resolve));
    for (let attempt = 0; ; attempt++) {
      try {
        return (await this._client.submit(asked(prompts.panel, cell))).run_id;
      } catch (reason) {
        if (!(reason instanceof RunError)) {
          throw reason;
        }
        if (reason.code === 'run-active' && reason.runId !== null) {
          return reason.runId;
        }
        if (reason.code !== 'not-caught-up' || attempt > 0) {
          throw reason;
        }
        await new Promise(resolve => setTimeout(resolve, CATCH_UP_DELAY));
        if (cell.isDisposed) {
          throw reason;
        }
      }
    }
  }

  private _refused(promptId: string, reason: unknown): boolean {
    if (reason instanceof RunError && reason.code === 'answer-kept') {
      this.setPhase(promptId, null);
      return true;
    }
    const { code, message } = this._show(reason);
    this.setPhase(promptId, { kind: 'failed', code, message });
    return false;
  }

  private async _ended(
    prompts: INotebookPrompts,
    promptId: string,
    runId: string
  ): Promise<boolean> {
    this._submitted.set(promptId, runId);
    // The document takes over as soon as it says anything of this run.
    const seen = (): void => {
      if (prompts.answerOfRun(runId)) {
        prompts.changed.disconnect(seen);
        this.setPhase(promptId, null);
      }
    };
    prompts.changed.connect(seen);
    seen();
    try {
      const status = await this._wait(prompts, runId);
      return status !== null && isSuccess(status);
    } finally {
      prompts.changed.disconnect(seen);
      if (this._submitted.get(promptId) === runId) {
        this._submitted.delete(promptId);
      }
      if (this.phase(promptId)?.kind === 'sending') {
        this.setPhase(promptId, null);
      }
    }
  }

  /** The status the run ended with; null if the notebook was closed before. */
  private _wait(
    prompts: INotebookPrompts,
    runId: string
  ): Promise<RunStatus | null> {
    return new Promise(resolve => {
      let unknown = 0;
      const finish = (status: RunStatus | null): void => {
        clearInterval(timer);
        prompts.changed.disconnect(look);
        prompts.disposed.disconnect(close);
        resolve(status);
      };
      const close = (): void => finish(null);
      const look = (): void => {
        const status = prompts.answerOfRun(runId)?.answer.status ?? null;
        if (status !== null && !isActive(status)) {
          finish(status);
        }
      };
      const ask = async (): Promise<void> => {
        try {
          const { status } = await this._client.run(runId);
          unknown = 0;
          if (!isActive(status)) {
            finish(status);
          }
        } catch (reason) {
          // A server that is away may come back; one that has forgotten will not.
          if (
            reason instanceof RunError &&
            !reason.retryable &&
            ++unknown > 1
          ) {
            finish('interrupted');
          }
        }
      };
      const timer = setInterval(() => void ask(), LOOK_UP_INTERVAL);
      prompts.changed.connect(look);
      prompts.disposed.connect(close);
      look();
    });
  }

  private _show(reason: unknown): { code: string; message: string } {
    const code = reason instanceof RunError ? reason.code : 'unexpected';
    const message =
      reason instanceof RunError
        ? reason.message
        : this._trans.__('The question could not be run: %1', String(reason));
    Notification.error(message, {
      autoClose: 10000,
      actions: concernsKeys(code)
        ? [{ label: this._trans.__('Keys…'), callback: this._openKeys }]
        : []
    });
    return { code, message };
  }

  private readonly _client: IRunClient;
  private readonly _tracker: IPromptTracker;
  private readonly _openKeys: () => void;
  private readonly _trans: TranslationBundle;
  private readonly _phases = new Map<string, LocalPhase>();
  private readonly _submitted = new Map<string, string>();
  private readonly _phaseChanged = new Signal<IRunController, string>(this);
}

export namespace RunController {
  export interface IOptions {
    client: IRunClient;
    tracker: IPromptTracker;
    openKeys: () => void;
    trans: TranslationBundle;
  }
}

export const runsPlugin: JupyterFrontEndPlugin<IRunController> = {
  id: '@nbinline/lab:runs',
  description: 'Runs questions and waits for them.',
  autoStart: true,
  provides: IRunController,
  requires: [IRunClient, IPromptTracker],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    client: IRunClient,
    tracker: IPromptTracker,
    translator: ITranslator | null
  ) =>
    new RunController({
      client,
      tracker,
      openKeys: () => void app.commands.execute(CommandIDs.openKeys),
      trans: (translator ?? nullTranslator).load('nbinline')
    })
};
