/** Lets questions take part in every way of running cells; other cells are delegated. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import type { Cell, MarkdownCell } from '@jupyterlab/cells';
import { INotebookCellExecutor, runCell } from '@jupyterlab/notebook';
import type { INotebookModel } from '@jupyterlab/notebook';

import { readRole } from './promptModel';
import { RunQueue } from './runQueue';
import type { CellKind } from './runQueue';
import { IRunController } from './tokens';
import { METADATA_KEY } from './wire';

/**
 * Runs prompts through the server and everything else as JupyterLab does.
 *
 * With `server_side_execution` on, jupyter-collaboration's own executor posts to a route
 * that its server does not have; `runCell` runs such cells, too.
 */
export class CellExecutor implements INotebookCellExecutor {
  constructor(runs: IRunController) {
    this._runs = runs;
  }

  runCell(options: INotebookCellExecutor.IRunCellOptions): Promise<boolean> {
    const { cell, notebook } = options;
    const kind = kindOf(cell);
    const queue = this._queue(notebook);
    if (kind === 'prompt') {
      return this._prompt(queue, options);
    }
    const entry = queue.add(kind, () => runCell(options));
    if (entry.waiting) {
      // Shown in this page only: a mark in the shared document could stay for ever.
      cell.setPrompt('*');
      const clear = (): void => restorePrompt(cell);
      entry.done.then(clear, clear);
    }
    return entry.done;
  }

  private async _prompt(
    queue: RunQueue,
    options: INotebookCellExecutor.IRunCellOptions
  ): Promise<boolean> {
    const cell = options.cell as MarkdownCell;
    const id = cell.model.id;
    cell.rendered = true;
    cell.inputHidden = false;
    const ongoing = this._ongoing.get(cell);
    if (ongoing) {
      // A question that is being answered is not asked again, it is waited for.
      return queue.add('prompt', () => ongoing).done;
    }
    const entry = queue.add('prompt', async () => {
      this._dequeue(id);
      if (cell.isDisposed) {
        return false;
      }
      options.onCellExecutionScheduled({ cell });
      const success = await this._runs.run(cell);
      if (!cell.isDisposed) {
        options.onCellExecuted({ cell, success });
      }
      return success;
    });
    if (entry.waiting) {
      this._runs.queued.set(id, entry);
      this._runs.setPhase(id, { kind: 'waiting' });
    }
    this._ongoing.set(cell, entry.done);
    try {
      return await entry.done;
    } finally {
      this._ongoing.delete(cell);
      this._dequeue(id);
    }
  }

  private _dequeue(id: string): void {
    if (this._runs.queued.delete(id)) {
      this._runs.setPhase(id, null);
    }
  }

  private _queue(notebook: INotebookModel): RunQueue {
    let queue = this._queues.get(notebook);
    if (!queue) {
      queue = new RunQueue();
      this._queues.set(notebook, queue);
    }
    return queue;
  }

  private readonly _runs: IRunController;
  /** Questions that this page has asked, or will when their turn comes. */
  private readonly _ongoing = new WeakMap<Cell, Promise<boolean>>();
  private readonly _queues = new WeakMap<INotebookModel, RunQueue>();
}

function kindOf(cell: Cell): CellKind {
  const { type } = cell.model;
  if (type === 'code') {
    return 'code';
  }
  const role = readRole(type, cell.model.getMetadata(METADATA_KEY));
  return role?.kind === 'prompt' ? 'prompt' : 'other';
}

function restorePrompt(cell: Cell): void {
  if (!cell.isDisposed && cell.model.type === 'code') {
    const count: unknown = cell.model.sharedModel.toJSON().execution_count;
    cell.setPrompt(typeof count === 'number' ? `${count}` : '');
  }
}

export const executorPlugin: JupyterFrontEndPlugin<INotebookCellExecutor> = {
  id: '@nbinline/lab:executor',
  description: 'Runs questions in order with code cells.',
  autoStart: true,
  provides: INotebookCellExecutor,
  requires: [IRunController],
  activate: (_: JupyterFrontEnd, runs: IRunController) =>
    Object.freeze(new CellExecutor(runs))
};
