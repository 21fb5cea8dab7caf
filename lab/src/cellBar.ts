/** A slim bar above the content of a cell. */
import type { Cell, MarkdownCell } from '@jupyterlab/cells';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import type { PanelLayout, Widget } from '@lumino/widgets';

/** Base of the question's header and the answer's badge. */
export abstract class CellBar extends ReactWidget {
  constructor(label: string) {
    super();
    this.addClass('nbinline-CellBar');
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', label);
    // Letters typed on a control here are not the notebook's shortcuts.
    this.node.dataset.lmSuppressShortcuts = 'true';
  }

  handleEvent(event: Event): void {
    keepPresses(this, event);
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this.node.addEventListener('mousedown', this);
    this.node.addEventListener('dblclick', this);
    this.node.addEventListener('keydown', this);
  }

  protected override onBeforeDetach(msg: Message): void {
    this.node.removeEventListener('mousedown', this);
    this.node.removeEventListener('dblclick', this);
    this.node.removeEventListener('keydown', this);
    super.onBeforeDetach(msg);
  }
}

/** Keep presses on a control inside a cell from the notebook; Escape goes back to the cell. */
export function keepPresses(widget: Widget, event: Event): void {
  const { target } = event;
  if (event instanceof KeyboardEvent) {
    if (event.key === 'Escape') {
      widget.parent?.node.focus();
    }
    return;
  }
  // The notebook would take a press on a control for the start of a drag.
  if (
    target instanceof Element &&
    target.closest('button, select, input, label, a, summary, pre') !== null
  ) {
    event.stopPropagation();
  }
}

/** The bars of the cells that have one. */
export class CellBars<T extends CellBar> {
  get(cell: Cell): T | null {
    return this._bars.get(cell) ?? null;
  }

  values(): Iterable<T> {
    return this._bars.values();
  }

  /** Put a bar above or below the cell's content as soon as the cell has any. */
  add(cell: MarkdownCell, bar: T, place: 'above' | 'below' = 'above'): void {
    this._bars.set(cell, bar);
    cell.disposed.connect(() => this.remove(cell));
    void cell.ready.then(() => {
      if (!cell.isDisposed && !bar.isDisposed) {
        const layout = cell.layout as PanelLayout;
        layout.insertWidget(place === 'above' ? 1 : layout.widgets.length, bar);
      }
    });
  }

  remove(cell: Cell): void {
    this._bars.get(cell)?.dispose();
    this._bars.delete(cell);
  }

  private readonly _bars = new Map<Cell, T>();
}
