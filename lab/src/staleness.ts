/** Follows whether answers were made from something that has changed since. Never writes. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import type { ICellModel } from '@jupyterlab/cells';
import type { CellList } from '@jupyterlab/notebook';
import type { IObservableList } from '@jupyterlab/observables';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { ChangedInputs } from './changedInputs';
import { cellHash } from './inputHash';
import { forEachNotebook } from './notebookPrompts';
import type { Role } from './promptModel';
import { followSettings } from './settingValues';
import { Slices } from './slices';
import { IPromptTracker, IRunClient, IStaleness } from './tokens';
import type { INotebookPrompts, IRoleChange } from './tokens';

/** Quiet time before changed cells are looked at (ms). */
const QUIET = 500;

/** Runs that one request asks for. */
const BATCH = 40;

/** The answers of one notebook. */
class NotebookInputs {
  constructor(
    private readonly _prompts: INotebookPrompts,
    private readonly _client: IRunClient,
    private readonly _tell: (runId: string) => void
  ) {
    this.inputs = new ChangedInputs((id, outputs) => this._hash(id, outputs));
    const { content } = _prompts.panel;
    content.modelChanged.connect(this._followModel, this);
    this._followModel();
    for (const [, role] of _prompts.cells()) {
      this._note(role);
    }
    _prompts.changed.connect(this._onRole, this);
    _prompts.disposed.connect(this.dispose, this);
  }

  readonly inputs: ChangedInputs;

  dispose(): void {
    clearTimeout(this._timer);
    this._generation++;
    Signal.clearData(this);
  }

  private _followModel(): void {
    const cells = this._prompts.panel.content.model?.cells;
    this._models.clear();
    if (cells) {
      for (const cell of cells) {
        this._models.set(cell.id, cell);
      }
      cells.changed.connect(this._onCells, this);
    }
  }

  private _onCells(
    _: CellList,
    { oldValues, newValues, type }: IObservableList.IChangedArgs<ICellModel>
  ): void {
    if (type === 'remove' || type === 'set' || type === 'clear') {
      for (const cell of oldValues) {
        this._models.delete(cell.id);
        this._touch(cell.id);
      }
    }
    for (const cell of newValues) {
      this._models.set(cell.id, cell);
      this._touch(cell.id);
    }
  }

  private _onRole(_: INotebookPrompts, { role, previous }: IRoleChange): void {
    const before = runOf(previous);
    if (before !== null && before !== runOf(role)) {
      this._wanted.delete(before);
      this.inputs.remove(before);
    }
    this._note(role);
  }

  private _note(role: Role | null): void {
    const runId = runOf(role);
    if (runId !== null && !this.inputs.knows(runId)) {
      this._wanted.add(runId);
      this._schedule();
    }
  }

  private readonly _onContent = (cell: ICellModel): void => {
    this._touch(cell.id);
  };

  private _touch(cellId: string): void {
    if (this.inputs.concerns(cellId)) {
      this._touched.add(cellId);
      this._schedule();
    }
  }

  private _schedule(): void {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => void this._work(), QUIET);
  }

  /** Learn what is missing, then look at what was touched, in short pieces. */
  private async _work(): Promise<void> {
    const generation = ++this._generation;
    await this._learn();
    const slices = new Slices();
    for (const cellId of [...this._touched]) {
      if (generation !== this._generation) {
        return;
      }
      this._touched.delete(cellId);
      this.inputs.look(cellId).forEach(this._tell);
      await slices.breathe();
    }
  }

  private async _learn(): Promise<void> {
    while (this._wanted.size > 0) {
      const asked = [...this._wanted].slice(0, BATCH);
      asked.forEach(runId => this._wanted.delete(runId));
      let found: Record<string, Record<string, string>>;
      try {
        found = (await this._client.inputs(asked)).inputs;
      } catch {
        return; // nothing is known of them: nothing is claimed
      }
      for (const [runId, inputs] of Object.entries(found)) {
        this.inputs.add(runId, inputs);
        for (const cellId of Object.keys(inputs)) {
          this._touched.add(cellId);
          this._models.get(cellId)?.contentChanged.connect(this._onContent);
        }
      }
    }
  }

  private _hash(cellId: string, withOutputs: boolean): string | null {
    const shared = this._models.get(cellId)?.sharedModel;
    if (!shared) {
      return null;
    }
    const outputs =
      withOutputs && shared.cell_type === 'code'
        ? (shared as ISharedCode).getOutputs()
        : [];
    return cellHash(shared.getSource(), withOutputs ? outputs : null);
  }

  private readonly _models = new Map<string, ICellModel>();
  private readonly _wanted = new Set<string>();
  private readonly _touched = new Set<string>();
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _generation = 0;
}

interface ISharedCode {
  getOutputs(): unknown[];
}

/** The run that finished an answer whose inputs may be known, or null. */
function runOf(role: Role | null): string | null {
  return role?.kind === 'answer' && role.status === 'done' && role.hasInputs
    ? role.runId
    : null;
}

class Staleness implements IStaleness {
  constructor(tracker: IPromptTracker, client: IRunClient) {
    forEachNotebook(tracker, prompts => {
      const inputs = new NotebookInputs(prompts, client, runId =>
        this._changed.emit(runId)
      );
      this._notebooks.set(prompts, inputs);
      prompts.disposed.connect(() => this._notebooks.delete(prompts));
    });
  }

  enabled = true;

  get changed(): ISignal<IStaleness, string> {
    return this._changed;
  }

  changedCells(
    prompts: INotebookPrompts,
    runId: string | null
  ): ReadonlySet<string> {
    const inputs = this._notebooks.get(prompts)?.inputs;
    return this.enabled && runId !== null && inputs
      ? inputs.changed(runId)
      : NONE;
  }

  private readonly _notebooks = new Map<INotebookPrompts, NotebookInputs>();
  private readonly _changed = new Signal<IStaleness, string>(this);
}

const NONE: ReadonlySet<string> = new Set();

export const stalenessPlugin: JupyterFrontEndPlugin<IStaleness> = {
  id: '@nbinline/lab:staleness',
  description: 'Follows whether what answers were made from has changed.',
  autoStart: true,
  provides: IStaleness,
  requires: [IPromptTracker, IRunClient],
  optional: [ISettingRegistry],
  activate: (
    _: JupyterFrontEnd,
    tracker: IPromptTracker,
    client: IRunClient,
    registry: ISettingRegistry | null
  ) => {
    const staleness = new Staleness(tracker, client);
    followSettings(registry, settings => {
      staleness.enabled = settings.get('staleAnswers').composite !== false;
    });
    return staleness;
  }
};
