/** The question a notebook's context is shown for, and what the server says of it. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import type { Cell } from '@jupyterlab/cells';
import type { Notebook } from '@jupyterlab/notebook';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { asked } from './asked';
import { chooseDefaults } from './choices';
import { readDefaults } from './connections';
import type { INotebookDefaults } from './connections';
import { marksOf, seedFlags } from './contextMarks';
import type { ICellMark } from './contextMarks';
import type { ContextMode, IContextReport } from './contextWire';
import { forEachNotebook } from './notebookPrompts';
import { Preview } from './preview';
import {
  INotebookContexts,
  IPromptTracker,
  IRunClient,
  IServerModel
} from './tokens';
import type { INotebookContext, INotebookPrompts } from './tokens';
import { METADATA_KEY } from './wire';

class NotebookContext implements INotebookContext {
  constructor(prompts: INotebookPrompts, client: IRunClient) {
    this.prompts = prompts;
    this._client = client;
    this.preview = new Preview(() => this._ask());
    const notebook = prompts.panel.content;
    notebook.activeCellChanged.connect(this._onActiveCell, this);
    prompts.changed.connect(this._onRole, this);
    notebook.modelChanged.connect(this._followModel, this);
    this._followModel();
    this._onActiveCell(notebook, notebook.activeCell);
    this.preview.changed.connect(() => {
      this._marks = null;
      this._changed.emit();
    });
    prompts.disposed.connect(() => this.preview.dispose());
  }

  readonly prompts: INotebookPrompts;
  readonly preview: Preview;

  get changed(): ISignal<INotebookContext, void> {
    return this._changed;
  }

  get target(): string | null {
    return this._target;
  }

  get defaults(): INotebookDefaults {
    const model = this.prompts.panel.content.model;
    return readDefaults(model?.getMetadata(METADATA_KEY));
  }

  get mode(): ContextMode {
    return this.forcedMode ?? this.defaults.contextMode ?? 'default';
  }

  forcedMode: ContextMode | null = null;

  get detailsOpen(): boolean {
    return this._detailsOpen;
  }

  set detailsOpen(open: boolean) {
    this._detailsOpen = open;
    this._look();
  }

  get boxesAlways(): boolean {
    return this._boxesAlways;
  }

  set boxesAlways(always: boolean) {
    if (always !== this._boxesAlways) {
      this._boxesAlways = always;
      this._look();
    }
  }

  get boxesShown(): boolean {
    return (this._detailsOpen || this._boxesAlways) && this._target !== null;
  }

  get marks(): ReadonlyMap<string, ICellMark> | null {
    const { report } = this.preview.state;
    if (this._marks === null && report !== null) {
      this._marks = marksOf(report);
    }
    return this._marks;
  }

  async chooseMode(mode: ContextMode): Promise<void> {
    const model = this.prompts.panel.content.model;
    if (!model || mode === this.mode) {
      return;
    }
    const metadata = model.getMetadata(METADATA_KEY) as
      Record<string, unknown> | undefined;
    if (mode !== 'custom' || metadata?.customContextInitialized === true) {
      chooseDefaults(model, { contextMode: mode });
      return;
    }
    const report = await this._freshReport();
    if (!model.isDisposed) {
      this._seed(report);
    }
  }

  /** Write Custom and its flags in one transaction, which is one step of undo. */
  private _seed(report: IContextReport | null): void {
    const model = this.prompts.panel.content.model;
    if (!model) {
      return;
    }
    const cells = model.sharedModel.cells;
    const flags = report
      ? seedFlags(
          report,
          cells.map(cell => cell.getId())
        )
      : new Map<string, boolean>();
    model.sharedModel.transact(() => {
      for (const cell of cells) {
        const include = flags.get(cell.getId());
        if (include !== undefined) {
          const mark = cell.getMetadata(METADATA_KEY) as object | undefined;
          cell.setMetadata(METADATA_KEY, { ...mark, contextInclude: include });
        }
      }
      chooseDefaults(model, { contextMode: 'custom' });
      model.setMetadata(METADATA_KEY, {
        ...(model.getMetadata(METADATA_KEY) as object),
        customContextInitialized: true
      });
    });
  }

  /** What the present mode selects; null if the server cannot say. */
  private async _freshReport(): Promise<IContextReport | null> {
    try {
      return await this._ask();
    } catch {
      return null;
    }
  }

  private _ask(): Promise<IContextReport> | null {
    const prompt =
      this._target === null ? null : this.prompts.prompt(this._target);
    if (prompt?.cell.model.sharedModel.getSource().trim()) {
      return this._client.preview(asked(this.prompts.panel, prompt.cell));
    }
    return null;
  }

  private _onActiveCell(_: Notebook, cell: Cell | null): void {
    const role = cell ? this.prompts.role(cell) : null;
    if (cell && role?.kind === 'prompt') {
      this._aim(cell.model.id);
    } else if (role?.kind === 'answer') {
      this._aim(role.promptId);
    } else if (this._target === null) {
      this._aimAtAny();
    }
  }

  private _onRole(): void {
    const active = this.prompts.panel.content.activeCell;
    if (this._target === null || this.prompts.prompt(this._target) === null) {
      this._target = null;
      this._onActiveCell(this.prompts.panel.content, active);
      this._aimAtAny();
    }
    this.preview.invalidate();
    this._changed.emit();
  }

  /** Without a question that somebody selected, the last one in the notebook. */
  private _aimAtAny(): void {
    if (this._target !== null) {
      return;
    }
    let last: string | null = null;
    for (const cell of this.prompts.panel.content.widgets) {
      if (this.prompts.role(cell)?.kind === 'prompt') {
        last = cell.model.id;
      }
    }
    if (last !== null) {
      this._aim(last);
    }
  }

  private _aim(promptId: string): void {
    if (promptId !== this._target) {
      this._target = promptId;
      this.preview.reset();
      this._look();
    }
  }

  private _followModel(): void {
    const model = this.prompts.panel.content.model;
    const invalidate = (): void => this.preview.invalidate();
    model?.contentChanged.connect(invalidate);
    model?.metadataChanged.connect(() => {
      this.preview.invalidate();
      this._changed.emit();
    });
  }

  private _look(): void {
    this.preview.wanted = this._detailsOpen || this.boxesShown;
    this._changed.emit();
  }

  private readonly _client: IRunClient;
  private readonly _changed = new Signal<INotebookContext, void>(this);
  private _target: string | null = null;
  private _detailsOpen = false;
  private _boxesAlways = false;
  private _marks: Map<string, ICellMark> | null = null;
}

class NotebookContexts implements INotebookContexts {
  constructor(
    tracker: IPromptTracker,
    client: IRunClient,
    server: IServerModel
  ) {
    const settle = (context: NotebookContext): void => {
      const mode = server.known?.policy?.forced?.contextMode;
      context.forcedMode =
        typeof mode === 'string' ? (mode as ContextMode) : null;
      context.preview.invalidate();
    };
    forEachNotebook(tracker, prompts => {
      const context = new NotebookContext(prompts, client);
      settle(context);
      this._contexts.set(prompts, context);
      prompts.disposed.connect(() => this._contexts.delete(prompts));
      this._added.emit(context);
    });
    server.changed.connect(() => this._contexts.forEach(settle));
  }

  get added(): ISignal<INotebookContexts, INotebookContext> {
    return this._added;
  }

  get all(): Iterable<INotebookContext> {
    return this._contexts.values();
  }

  of(prompts: INotebookPrompts): INotebookContext | null {
    return this._contexts.get(prompts) ?? null;
  }

  forEach(callback: (context: INotebookContext) => void): void {
    this._contexts.forEach(callback);
    this._added.connect((_, context) => callback(context));
  }

  private readonly _contexts = new Map<INotebookPrompts, NotebookContext>();
  private readonly _added = new Signal<INotebookContexts, INotebookContext>(
    this
  );
}

export const notebookContextPlugin: JupyterFrontEndPlugin<INotebookContexts> = {
  id: '@nbinline/lab:context',
  description: 'Knows what the questions of open notebooks would send.',
  autoStart: true,
  provides: INotebookContexts,
  requires: [IPromptTracker, IRunClient, IServerModel],
  activate: (
    _: JupyterFrontEnd,
    tracker: IPromptTracker,
    client: IRunClient,
    server: IServerModel
  ) => new NotebookContexts(tracker, client, server)
};
