/** Keeps Context and Tools boxes on cells while people want to see them. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import type { Cell, ICellModel } from '@jupyterlab/cells';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { PanelLayout } from '@lumino/widgets';

import { ContextBox } from './contextBox';
import { followSettings } from './settingValues';
import { Slices } from './slices';
import { INotebookContexts } from './tokens';
import type { INotebookContext } from './tokens';
import { METADATA_KEY } from './wire';

/** Cells this far outside the view get their boxes before they are seen (pixels). */
const MARGIN = '600px 0px';

/**
 * The boxes of one notebook.
 *
 * A cell gets its box when it comes near the view: thousands at once would stop the page.
 */
class Boxes {
  constructor(context: INotebookContext, trans: TranslationBundle) {
    this._context = context;
    this._trans = trans;
    context.changed.connect(this._refresh, this);
    context.prompts.disposed.connect(() => this._hide());
    this._refresh();
  }

  private _refresh(): void {
    const { boxesShown } = this._context;
    if (boxesShown && !this._observer) {
      void this._show();
    } else if (!boxesShown && this._observer) {
      this._hide();
    }
    const { state } = this._context.preview;
    this._context.prompts.panel.content.node.classList.toggle(
      'nbinline-mod-checking',
      boxesShown && state.kind === 'checking'
    );
    // While the server is asked the boxes stay as they are.
    if (this._observer && state.kind !== 'checking') {
      void this._redraw();
    }
  }

  /** Watch which cells come near the view; those already there do so at once. */
  private async _show(): Promise<void> {
    const notebook = this._context.prompts.panel.content;
    const observer = new IntersectionObserver(
      entries => this._onView(entries),
      { root: notebook.outerNode, rootMargin: MARGIN }
    );
    this._observer = observer;
    notebook.model?.cells.changed.connect(this._onCells, this);
    await this._watchAll();
  }

  private _onCells(): void {
    this._places = null;
    void this._watchAll();
  }

  private async _watchAll(): Promise<void> {
    const observer = this._observer;
    const slices = new Slices();
    for (const cell of this._context.prompts.panel.content.widgets) {
      if (this._observer !== observer || !observer) {
        return;
      }
      if (!this._cells.has(cell.node)) {
        this._cells.set(cell.node, cell);
        cell.disposed.connect(() => this._forget(cell));
        observer.observe(cell.node);
      }
      await slices.breathe();
    }
  }

  private _onView(entries: readonly IntersectionObserverEntry[]): void {
    for (const { isIntersecting, target } of entries) {
      const cell = this._cells.get(target);
      if (cell && isIntersecting && !this._boxes.has(cell)) {
        this._add(cell);
      }
    }
  }

  private _add(cell: Cell): void {
    const box = new ContextBox(cell, this._trans);
    this._boxes.set(cell, box);
    this._draw(cell, box, this._order());
    this._models.set(cell.model, cell);
    cell.model.metadataChanged.connect(this._onMetadata, this);
    void cell.ready.then(() => {
      if (!cell.isDisposed && !box.isDisposed) {
        (cell.layout as PanelLayout).insertWidget(1, box);
      }
    });
  }

  private _onMetadata(model: ICellModel, { key }: { key: string }): void {
    const cell = this._models.get(model);
    const box = cell && this._boxes.get(cell);
    if (cell && box && key === METADATA_KEY) {
      this._draw(cell, box, this._order());
    }
  }

  private _hide(): void {
    this._observer?.disconnect();
    this._observer = null;
    const { content } = this._context.prompts.panel;
    content?.model?.cells.changed.disconnect(this._onCells, this);
    for (const [model] of this._models) {
      model.metadataChanged.disconnect(this._onMetadata, this);
    }
    for (const box of this._boxes.values()) {
      box.dispose();
    }
    this._boxes.clear();
    this._models.clear();
    this._cells.clear();
  }

  private _forget(cell: Cell): void {
    this._observer?.unobserve(cell.node);
    this._cells.delete(cell.node);
    this._boxes.delete(cell);
    this._models.delete(cell.model);
  }

  private async _redraw(): Promise<void> {
    const drawing = ++this._drawing;
    const order = this._order();
    const slices = new Slices();
    for (const [cell, box] of [...this._boxes]) {
      await slices.breathe();
      if (drawing !== this._drawing) {
        return;
      }
      if (!box.isDisposed) {
        this._draw(cell, box, order);
      }
    }
  }

  private _draw(cell: Cell, box: ContextBox, order: IOrder): void {
    const { mode, marks, forcedMode } = this._context;
    box.draw({
      mode,
      mark: marks?.get(cell.model.id) ?? null,
      above: (order.places.get(cell.model.id) ?? 0) <= order.target,
      locked:
        forcedMode !== null && mode !== 'custom'
          ? this._trans.__('The context mode is set by this server')
          : null
    });
  }

  /** Where the cells stand, looked up once for many. */
  private _order(): IOrder {
    const { target, prompts } = this._context;
    const cells = prompts.panel.content.model?.sharedModel.cells ?? [];
    this._places ??= new Map(cells.map((cell, at) => [cell.getId(), at]));
    return {
      places: this._places,
      target: this._places.get(target ?? '') ?? -1
    };
  }

  private readonly _context: INotebookContext;
  private readonly _trans: TranslationBundle;
  private readonly _boxes = new Map<Cell, ContextBox>();
  private readonly _cells = new Map<Element, Cell>();
  private _observer: IntersectionObserver | null = null;
  private readonly _models = new Map<ICellModel, Cell>();
  private _places: Map<string, number> | null = null;
  private _drawing = 0;
}

interface IOrder {
  readonly places: ReadonlyMap<string, number>;
  readonly target: number;
}

export const contextBoxesPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:context-boxes',
  description: 'Shows Context and Tools boxes on cells.',
  autoStart: true,
  requires: [INotebookContexts],
  optional: [ISettingRegistry, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    contexts: INotebookContexts,
    registry: ISettingRegistry | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    let always = false;
    contexts.forEach(context => {
      context.boxesAlways = always;
      new Boxes(context, trans);
    });
    followSettings(registry, settings => {
      always = settings.get('contextBoxes').composite === 'always';
      for (const context of contexts.all) {
        context.boxesAlways = always;
      }
    });
  }
};
