/**
 * Shows a running answer rendered, block by block, in the place where JupyterLab shows
 * the rendered Markdown of the cell.
 *
 * JupyterLab itself renders a whole cell, and only after a second without changes. While
 * an answer runs, and after it until somebody edits it, its requests to render the cell
 * are held back, and the blocks stand in the cell's own rendered output instead.
 */
import type { MarkdownCell } from '@jupyterlab/cells';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TableOfContents } from '@jupyterlab/toc';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import type { IMessageHandler, Message } from '@lumino/messaging';
import { MessageLoop } from '@lumino/messaging';

import { AgentCaret } from './agentCaret';
import { AnswerDrawing } from './answerDrawing';
import { BlockRenderer } from './blockRenderer';
import { GrowingHeight } from './growingHeight';
import { quietEditor } from './hiddenEditor';
import { LiveHeadings } from './liveHeadings';
import { MarkdownBlocks } from './markdownBlocks';
import type { IBlock } from './markdownScan';
import type { IAgentPresence } from './presence';
import { ShownBlocks } from './shownBlocks';
import { Slices } from './slices';

/** At least this long between the ends and starts of renderings (ms). */
const MIN_PAUSE = 40;

/** The pause is this many times what it took to render one block. */
const PACE = 3;

const ACTIVE_CLASS = 'nbinline-mod-running';
const WAITING_CLASS = 'nbinline-mod-waiting';

export class LiveAnswer implements IDisposable {
  constructor(options: LiveAnswer.IOptions) {
    this._cell = options.cell;
    this._rendermime = options.rendermime;
    this._presence = options.presence;
    this._trans = options.trans;
    this._host = this._cell.renderer.node;
    this._shown = new ShownBlocks(this._host);
    this._height = new GrowingHeight(this._host);
    this._headings = new LiveHeadings({
      cell: this._cell,
      parser: this._rendermime.markdownParser,
      blocks: () => this._blocks.blocks,
      contents: options.contents
    });
    this._cell.model.contentChanged.connect(this._onContentChanged, this);
    this._cell.renderedChanged.connect(this._onRenderedChanged, this);
    MessageLoop.installMessageHook(this._cell, this._hook);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    window.clearTimeout(this._timer);
    this._height.stop();
    this._headings.dispose();
    this._renderer?.dispose();
    this._caret.remove();
    if (!this._cell.isDisposed) {
      MessageLoop.removeMessageHook(this._cell, this._hook);
      this._cell.model.contentChanged.disconnect(this._onContentChanged, this);
      this._cell.renderedChanged.disconnect(this._onRenderedChanged, this);
      this._cell.removeClass(ACTIVE_CLASS);
      this._cell.removeClass(WAITING_CLASS);
      quietEditor(this._cell, false);
    }
  }

  /** The document says that the answer is being written. */
  start(isNew: boolean): void {
    if (this._active) {
      return;
    }
    this._active = true;
    if (this._cell.isAttached) {
      this._rendering();
    }
    this._height.start(() => this._active && this._mine);
    this._cell.addClass(ACTIVE_CLASS);
    this._host.dataset.nbinlineWaiting = this._trans.__(
      'Waiting for the first words…'
    );
    this._markWaiting();
    if (isNew && !this._cell.rendered && !this._cell.editor?.hasFocus()) {
      // JupyterLab opens an inserted Markdown cell without text in its editor.
      this._cell.rendered = true;
    }
    if (this._source() !== '' && this._cell.rendered && !this._mine) {
      this._takeOverLater = true;
    }
    this._schedule(true);
  }

  /** The document says that the run has ended. */
  finish(): void {
    if (!this._active) {
      return;
    }
    this._active = false;
    this._host.dataset.nbinlineWaiting = this._trans.__('No text was written.');
    this._markWaiting();
    this._schedule(true);
  }

  /** The agent came, changed or left. */
  refreshAgent(): void {
    if (this._active && this._mine) {
      this._placeCaret();
    }
  }

  private readonly _hook = (_: IMessageHandler, msg: Message): boolean => {
    if (msg.type !== 'update-request' || !this._cell.rendered) {
      return true;
    }
    if (this._active) {
      if (!this._mine && this._host.hasChildNodes()) {
        return true;
      }
      this._takeOverLater = false;
      this._schedule(false);
    } else if (!this._mine) {
      return true;
    } else if (this._renderedSource !== this._source() && !this._busy()) {
      this._release();
      return true;
    }
    this._applyReadOnly();
    return false;
  };

  /** What JupyterLab does on an update besides rendering. */
  private _applyReadOnly(): void {
    const { editor, readOnly } = this._cell;
    if (editor && editor.getOption('readOnly') !== readOnly) {
      editor.setOption('readOnly', readOnly);
    }
  }

  private _onContentChanged(): void {
    if (this._active) {
      this._takeOverLater = false;
      this._markWaiting();
      this._schedule(false);
    }
  }

  private _onRenderedChanged(_: MarkdownCell, rendered: boolean): void {
    // Whoever opens the editor leaves it with JupyterLab's own rendering.
    this._release();
    if (rendered && this._active) {
      this._schedule(true);
    }
  }

  private _source(): string {
    return this._cell.model.sharedModel.getSource();
  }

  private _markWaiting(): void {
    const empty = this._source() === '';
    this._cell.toggleClass(
      WAITING_CLASS,
      empty && (this._active || this._mine)
    );
  }

  private _busy(): boolean {
    return this._passing || this._timer !== 0;
  }

  private _schedule(urgent: boolean): void {
    if (this._isDisposed) {
      return;
    }
    if (this._passing) {
      this._again = true;
      return;
    }
    if (this._timer !== 0) {
      if (!urgent) {
        return;
      }
      window.clearTimeout(this._timer);
    }
    const delay = urgent ? 0 : Math.max(0, this._notBefore - performance.now());
    this._timer = window.setTimeout(() => void this._pass(), delay);
  }

  /** Bring the page up to the source as it is now. */
  private async _pass(): Promise<void> {
    this._timer = 0;
    if (!this._canShow()) {
      if (!this._active && !this._isDisposed) {
        this._settle();
      }
      return;
    }
    this._passing = true;
    this._again = false;
    this._drawn = 0;
    const clock = new Slices();
    try {
      await this._show(clock);
    } catch (reason) {
      console.error('Failed to render a running answer', reason);
      this._renderer?.dispose();
      this._renderer = null;
    } finally {
      this._passing = false;
      // Finished blocks are rendered once; only the last one again and again.
      const cost = clock.worked() / Math.max(1, this._drawn);
      this._notBefore = performance.now() + Math.max(MIN_PAUSE, PACE * cost);
    }
    if (this._again) {
      this._schedule(!this._active);
    } else if (!this._active) {
      this._settle();
    }
  }

  /** Whether there is anything to show it in; the cell may be out of sight. */
  private _canShow(): boolean {
    const cell = this._cell;
    return (
      !this._isDisposed &&
      !cell.isDisposed &&
      cell.isAttached &&
      cell.rendered &&
      !this._takeOverLater &&
      (this._active || this._mine)
    );
  }

  private async _show(clock: Slices): Promise<void> {
    const source = this._source();
    const blocks = this._blocks.update(source);
    quietEditor(this._cell, true);
    if (!this._mine && !this._host.hasChildNodes()) {
      this._takeOver(this._shown);
    }
    const first = !this._mine;
    const shown = first
      ? new ShownBlocks(document.createElement('div'))
      : this._shown;
    await this._change(shown, blocks, clock);
    if (!this._canShow()) {
      return;
    }
    if (first) {
      // Swapped in at once, so that no half of the old text is seen with the new.
      this._host.replaceChildren(...shown.host.childNodes);
      this._takeOver(shown.movedTo(this._host));
    }
    this._renderedSource = source;
    this._markWaiting();
  }

  /** From now on the cell's rendered output holds these blocks. */
  private _takeOver(shown: ShownBlocks): void {
    this._shown = shown;
    this._mine = true;
    this._headings.start();
    this._placeCaret();
  }

  private async _change(
    shown: ShownBlocks,
    blocks: readonly IBlock[],
    clock: Slices
  ): Promise<void> {
    const plan = shown.plan(blocks);
    if (!plan) {
      return;
    }
    const drawing = new AnswerDrawing({
      plan,
      shown,
      clock,
      renderer: this._rendering(),
      wanted: () => !this._isDisposed && this._cell.rendered,
      placed: () => {
        if (shown === this._shown) {
          this._placeCaret();
        }
      }
    });
    await drawing.run();
    this._drawn = drawing.drawn;
  }

  private _rendering(): BlockRenderer {
    if (this._renderer === null) {
      const renderer = new BlockRenderer(this._cell, this._rendermime);
      this._renderer = renderer;
      renderer.loadMath().then(
        hadToLoad => {
          if (hadToLoad && !this._isDisposed) {
            this._shown.forgetMath();
            this._schedule(true);
          }
        },
        (reason: unknown) => console.warn('Formulas cannot be shown', reason)
      );
    }
    return this._renderer;
  }

  private _placeCaret(): void {
    const presence = this._active ? this._presence() : null;
    if (!this._active || presence === null || this._source() === '') {
      this._caret.remove();
      return;
    }
    this._caret.describe(presence);
    this._caret.moveTo(this._host);
  }

  /** The run has ended and all of it is shown. */
  private _settle(): void {
    this._caret.remove();
    this._height.free();
    this._cell.removeClass(ACTIVE_CLASS);
    this._height.stop();
    this._headings.finish();
    this._renderer?.dispose();
    this._renderer = null;
    this._markWaiting();
  }

  /** JupyterLab renders the cell from now on. */
  private _release(): void {
    this._mine = false;
    quietEditor(this._cell, false);
    this._headings.dispose();
    this._takeOverLater = false;
    this._shown = new ShownBlocks(this._host);
    this._caret.remove();
    this._height.free();
    this._markWaiting();
  }

  private readonly _cell: MarkdownCell;
  private readonly _rendermime: IRenderMimeRegistry;
  private readonly _presence: () => IAgentPresence | null;
  private readonly _trans: TranslationBundle;
  private readonly _host: HTMLElement;
  private readonly _blocks = new MarkdownBlocks();
  private readonly _caret = new AgentCaret();
  private readonly _height: GrowingHeight;
  private readonly _headings: LiveHeadings;
  private _shown: ShownBlocks;
  private _renderer: BlockRenderer | null = null;
  private _renderedSource = '';
  private _timer = 0;
  private _notBefore = 0;
  private _active = false;
  /** Whether the cell's rendered output holds our blocks. */
  private _mine = false;
  /** The old answer stays as JupyterLab has rendered it until the new one begins. */
  private _takeOverLater = false;
  private _passing = false;
  /** Blocks rendered in this pass. */
  private _drawn = 0;
  private _again = false;
  private _isDisposed = false;
}

export namespace LiveAnswer {
  export interface IOptions {
    cell: MarkdownCell;
    rendermime: IRenderMimeRegistry;
    /** The agent's presence for the answer's run, if it is there. */
    presence: () => IAgentPresence | null;
    /** The notebook's table of contents, if there is one. */
    contents: () => TableOfContents.Model | null;
    trans: TranslationBundle;
  }
}
