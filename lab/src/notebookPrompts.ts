/** Follows questions and answers in the open notebooks. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import type { Cell, ICellModel } from '@jupyterlab/cells';
import { MarkdownCell } from '@jupyterlab/cells';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { CellList, Notebook, NotebookPanel } from '@jupyterlab/notebook';
import type { IObservableList } from '@jupyterlab/observables';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { answerToShow, readRole, sameRole } from './promptModel';
import type { Role } from './promptModel';
import { IPromptTracker } from './tokens';
import type {
  IAnswerCell,
  INotebookPrompts,
  IPromptCell,
  IRoleChange
} from './tokens';
import { METADATA_KEY } from './wire';

/** Questions and answers of one notebook; a view, it never writes. */
class NotebookPrompts implements INotebookPrompts {
  constructor(panel: NotebookPanel) {
    this.panel = panel;
    panel.content.modelChanged.connect(this._followModel, this);
    panel.disposed.connect(this.dispose, this);
    this._followModel();
  }

  readonly panel: NotebookPanel;

  get changed(): ISignal<INotebookPrompts, IRoleChange> {
    return this._changed;
  }

  get disposed(): ISignal<INotebookPrompts, void> {
    return this._disposed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    for (const [cell, previous] of [...this._roles]) {
      this._set(cell, null, previous);
      this._changed.emit({ cell, role: null, previous });
    }
    this._disposed.emit();
    Signal.clearData(this);
  }

  role(cell: Cell): Role | null {
    return this._roles.get(cell as MarkdownCell) ?? null;
  }

  cells(): Iterable<readonly [MarkdownCell, Role]> {
    return this._roles.entries();
  }

  prompt(promptId: string): IPromptCell | null {
    for (const [cell, role] of this._roles) {
      if (role.kind === 'prompt' && cell.model.id === promptId) {
        return { cell, prompt: role };
      }
    }
    return null;
  }

  answerTo(promptId: string): IAnswerCell | null {
    const answers: IAnswerCell[] = [];
    for (const cell of this._answers.get(promptId) ?? []) {
      const role = this.role(cell);
      if (role?.kind === 'answer') {
        answers.push({ cell, answer: role });
      }
    }
    if (answers.length > 1) {
      const order = this.panel.content.widgets;
      answers.sort((a, b) => order.indexOf(a.cell) - order.indexOf(b.cell));
    }
    return answerToShow(answers);
  }

  answerOfRun(runId: string): IAnswerCell | null {
    for (const [cell, role] of this._roles) {
      if (role.kind === 'answer' && role.runId === runId) {
        return { cell, answer: role };
      }
    }
    return null;
  }

  private _followModel(): void {
    const model = this.panel.content.model;
    if (!model) {
      return;
    }
    // The notebook has connected before us, so its widgets exist when we are called.
    model.cells.changed.connect(this._onCellsChanged, this);
    this._follow(this.panel.content.widgets);
  }

  private _onCellsChanged(
    _: CellList,
    change: IObservableList.IChangedArgs<ICellModel>
  ): void {
    if (change.type === 'add') {
      const { newIndex, newValues } = change;
      this._follow(
        this.panel.content.widgets.slice(newIndex, newIndex + newValues.length)
      );
    }
  }

  private _follow(cells: readonly Cell[]): void {
    for (const cell of cells) {
      if (cell instanceof MarkdownCell && !this._known.has(cell)) {
        this._known.add(cell);
        cell.disposed.connect(this._forget, this);
        cell.model.metadataChanged.connect(
          (_: ICellModel, change: { key: string }) => {
            if (change.key === METADATA_KEY) {
              this._read(cell);
            }
          },
          this
        );
        this._read(cell);
      }
    }
  }

  private _read(cell: MarkdownCell): void {
    if (cell.isDisposed) {
      return;
    }
    const previous = this.role(cell);
    const role = readRole(
      cell.model.type,
      cell.model.getMetadata(METADATA_KEY)
    );
    if (sameRole(previous, role)) {
      return;
    }
    this._set(cell, role, previous);
    this._changed.emit({ cell, role, previous });
  }

  private _forget(cell: Cell): void {
    const previous = this.role(cell);
    this._known.delete(cell);
    if (previous) {
      this._set(cell as MarkdownCell, null, previous);
      this._changed.emit({ cell: cell as MarkdownCell, role: null, previous });
    }
  }

  private _set(
    cell: MarkdownCell,
    role: Role | null,
    previous: Role | null
  ): void {
    if (previous?.kind === 'answer') {
      this._answers.get(previous.promptId)?.delete(cell);
    }
    if (role?.kind === 'answer') {
      const answers = this._answers.get(role.promptId) ?? new Set();
      this._answers.set(role.promptId, answers.add(cell));
    }
    if (role) {
      this._roles.set(cell, role);
    } else {
      this._roles.delete(cell);
    }
  }

  private readonly _roles = new Map<MarkdownCell, Role>();
  /** Answer cells by the id of their question. */
  private readonly _answers = new Map<string, Set<MarkdownCell>>();
  private readonly _known = new WeakSet<Cell>();
  private readonly _changed = new Signal<INotebookPrompts, IRoleChange>(this);
  private readonly _disposed = new Signal<INotebookPrompts, void>(this);
  private _isDisposed = false;
}

class PromptTracker implements IPromptTracker {
  get added(): ISignal<IPromptTracker, INotebookPrompts> {
    return this._added;
  }

  get notebooks(): Iterable<INotebookPrompts> {
    return this._notebooks.values();
  }

  add(panel: NotebookPanel): void {
    const prompts = new NotebookPrompts(panel);
    const notebook = panel.content;
    this._notebooks.set(notebook, prompts);
    prompts.disposed.connect(() => this._notebooks.delete(notebook));
    this._added.emit(prompts);
  }

  of(notebook: Notebook | null | undefined): INotebookPrompts | null {
    return notebook ? (this._notebooks.get(notebook) ?? null) : null;
  }

  ofCell(cell: Cell): INotebookPrompts | null {
    for (const [notebook, prompts] of this._notebooks) {
      if (notebook.widgets.includes(cell)) {
        return prompts;
      }
    }
    return null;
  }

  private readonly _notebooks = new Map<Notebook, NotebookPrompts>();
  private readonly _added = new Signal<IPromptTracker, INotebookPrompts>(this);
}

/**
 * JupyterLab's notebook tracker needs a cell executor, and ours needs this tracker: so
 * this one is there first and is told of the notebooks by a plugin of its own.
 */
export const promptsPlugin: JupyterFrontEndPlugin<IPromptTracker> = {
  id: '@nbinline/lab:prompts',
  description: 'Follows questions and answers in the open notebooks.',
  autoStart: true,
  provides: IPromptTracker,
  activate: () => new PromptTracker()
};

export const notebooksPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:notebooks',
  description: 'Tells the tracker of questions and answers of open notebooks.',
  autoStart: true,
  requires: [IPromptTracker, INotebookTracker],
  activate: (
    _: JupyterFrontEnd,
    prompts: IPromptTracker,
    notebooks: INotebookTracker
  ) => {
    notebooks.forEach(panel => prompts.add(panel));
    notebooks.widgetAdded.connect((_, panel) => prompts.add(panel));
  }
};

/** Call back for every open notebook, now and later. */
export function forEachNotebook(
  tracker: IPromptTracker,
  callback: (prompts: INotebookPrompts) => void
): void {
  for (const prompts of tracker.notebooks) {
    callback(prompts);
  }
  tracker.added.connect((_, prompts) => callback(prompts));
}

/**
 * Call back for every cell with a role, now and later, and for every change of its role.
 */
export function forEachRole(
  tracker: IPromptTracker,
  callback: (prompts: INotebookPrompts, change: IRoleChange) => void
): void {
  forEachNotebook(tracker, prompts => {
    for (const [cell, role] of prompts.cells()) {
      callback(prompts, { cell, role, previous: null });
    }
    prompts.changed.connect((sender, change) => callback(sender, change));
  });
}
