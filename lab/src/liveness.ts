/** Tells runs that are really going on from marks left behind. Never writes. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import type { MarkdownCell } from '@jupyterlab/cells';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { RunError } from './errors';
import { forEachRole } from './notebookPrompts';
import { agentIn } from './presence';
import { isRunning } from './promptModel';
import type { IAnswer } from './promptModel';
import { ILiveness, IPromptTracker, IRunClient } from './tokens';
import type { INotebookPrompts } from './tokens';
import { isActive } from './wire';

/** Presence reaches a new page late; a mark is not questioned before (ms). */
const GRACE = 4000;

/** While a run shows no presence it is looked up this seldom (ms). */
const RECHECK = 30000;

class Liveness implements ILiveness {
  constructor(client: IRunClient, tracker: IPromptTracker) {
    this._client = client;
    forEachRole(tracker, (prompts, { cell, role }) => {
      if (role?.kind === 'answer' && isRunning(role)) {
        this._watch(prompts, cell, role);
      } else {
        this._forget(cell);
      }
    });
  }

  get changed(): ISignal<ILiveness, MarkdownCell> {
    return this._changed;
  }

  isDoubtful(cell: MarkdownCell): boolean {
    return this._doubtful.has(cell);
  }

  private _watch(
    prompts: INotebookPrompts,
    cell: MarkdownCell,
    answer: IAnswer
  ): void {
    const watched = this._watched.get(cell);
    if (watched?.runId === answer.runId) {
      return;
    }
    this._forget(cell);
    const check = async (): Promise<void> => {
      const doubtful = await this._isDead(prompts, answer.runId);
      const current = this._watched.get(cell);
      if (current?.runId !== answer.runId || cell.isDisposed) {
        return;
      }
      this._doubt(cell, doubtful);
      current.timer = window.setTimeout(() => void check(), RECHECK);
    };
    this._watched.set(cell, {
      runId: answer.runId,
      timer: window.setTimeout(() => void check(), GRACE)
    });
  }

  private async _isDead(
    prompts: INotebookPrompts,
    runId: string | null
  ): Promise<boolean> {
    if (runId === null) {
      return true;
    }
    if (prompts.isDisposed || agentIn(prompts.panel, runId)) {
      return false;
    }
    try {
      const run = await this._client.run(runId);
      return run.live === false || !isActive(run.status);
    } catch (reason) {
      return reason instanceof RunError && !reason.retryable;
    }
  }

  private _doubt(cell: MarkdownCell, doubtful: boolean): void {
    if (doubtful !== this._doubtful.has(cell)) {
      if (doubtful) {
        this._doubtful.add(cell);
      } else {
        this._doubtful.delete(cell);
      }
      this._changed.emit(cell);
    }
  }

  private _forget(cell: MarkdownCell): void {
    const watched = this._watched.get(cell);
    if (watched) {
      window.clearTimeout(watched.timer);
      this._watched.delete(cell);
    }
    if (cell.isDisposed) {
      this._doubtful.delete(cell);
    } else {
      this._doubt(cell, false);
    }
  }

  private readonly _client: IRunClient;
  private readonly _watched = new Map<
    MarkdownCell,
    { runId: string | null; timer: number }
  >();
  private readonly _doubtful = new Set<MarkdownCell>();
  private readonly _changed = new Signal<ILiveness, MarkdownCell>(this);
}

export const livenessPlugin: JupyterFrontEndPlugin<ILiveness> = {
  id: '@nbinline/lab:liveness',
  description: 'Tells runs that are really going on from marks left behind.',
  autoStart: true,
  provides: ILiveness,
  requires: [IRunClient, IPromptTracker],
  activate: (_: JupyterFrontEnd, client: IRunClient, tracker: IPromptTracker) =>
    new Liveness(client, tracker)
};
