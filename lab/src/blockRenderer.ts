/** Renders Markdown blocks with JupyterLab's own renderer. */
import { AttachmentsResolver } from '@jupyterlab/attachments';
import type { MarkdownCell } from '@jupyterlab/cells';
import { MimeModel } from '@jupyterlab/rendermime';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';

import { rendersFor } from './agentMarkdown';
import type { IBlock } from './markdownScan';
import { mathPieces } from './mathPieces';
import { MATH } from './shownBlocks';
import type { Slices } from './slices';

const MIME_TYPE = 'text/markdown';

/** Formulas are typeset for about so long at once (ms). */
const TYPESET = 20;

/** Typesetters that need no loading any more. */
const loaded = new WeakSet<IRenderMime.ILatexTypesetter>();

/** A block that is rendered but not in its place yet. */
export interface IDrawn {
  readonly block: IBlock;
  readonly nodes: ChildNode[];
}

/** Renders blocks next to the cell, out of sight. */
export class BlockRenderer {
  constructor(
    private readonly _cell: MarkdownCell,
    rendermime: IRenderMimeRegistry
  ) {
    const cell = this._cell;
    this._rendermime = rendermime.clone({
      resolver: new AttachmentsResolver({
        parent: rendermime.resolver ?? undefined,
        model: cell.model.attachments
      })
    });
    this._stage = document.createElement('div');
    this._stage.className =
      'nbinline-Stage jp-RenderedHTMLCommon jp-RenderedMarkdown';
    this._stage.setAttribute('aria-hidden', 'true');
    cell.node.appendChild(this._stage);
  }

  /**
   * Load MathJax, which is large and comes with the first formula. Until then formulas
   * are handed over as they are written: words must not wait for it.
   *
   * @returns Whether it had to be loaded.
   */
  async loadMath(): Promise<boolean> {
    const typesetter = this._rendermime.latexTypesetter;
    if (!typesetter || loaded.has(typesetter)) {
      return false;
    }
    const formula = document.createElement('div');
    formula.append('$x$');
    this._stage.after(formula);
    formula.className = this._stage.className;
    try {
      await typesetter.typeset(formula);
    } finally {
      loaded.add(typesetter);
      formula.remove();
    }
    return true;
  }

  /** Render one block and keep it on the stage. */
  async draw(block: IBlock): Promise<void> {
    const host = document.createElement('div');
    if (block.markdown.trim()) {
      const renderer = this._renderer();
      const model = new MimeModel({ data: { [MIME_TYPE]: block.markdown } });
      await renderer.renderModel(model);
      host.append(...renderer.node.childNodes);
      this._hasMath ||= MATH.test(block.markdown);
    }
    this._stage.appendChild(host);
    this._drawn.push([block, host]);
  }

  /** Typeset the formulas of what has been drawn and hand all of it over. */
  async take(clock: Slices): Promise<IDrawn[]> {
    const typesetter = this._rendermime.latexTypesetter;
    if (this._hasMath && typesetter && loaded.has(typesetter)) {
      await this._typeset(typesetter, clock);
    }
    const drawn = this._drawn.map(([block, host]) => ({
      block,
      nodes: [...host.childNodes]
    }));
    this._drawn = [];
    this._hasMath = false;
    this._stage.replaceChildren();
    return drawn;
  }

  /** Formulas need a place in the page to be measured; one call measures for many. */
  private async _typeset(
    typesetter: IRenderMime.ILatexTypesetter,
    clock: Slices
  ): Promise<void> {
    const most = Math.max(2, Math.floor(TYPESET / this._perFormula));
    for (const piece of mathPieces(this._stage, most)) {
      const began = performance.now();
      await typesetter.typeset(piece);
      const spent = performance.now() - began;
      const set = piece.querySelectorAll('mjx-container').length;
      if (set > 2) {
        this._perFormula = 0.7 * this._perFormula + (0.3 * spent) / set;
      }
      await clock.breathe();
    }
  }

  dispose(): void {
    this._stage.remove();
    this._markdown?.dispose();
  }

  private _renderer(): IRenderMime.IRenderer {
    if (this._markdown === null) {
      this._markdown = this._rendermime.createRenderer(MIME_TYPE);
      rendersFor(this._markdown, this._cell);
    }
    return this._markdown;
  }

  private readonly _rendermime: IRenderMimeRegistry;
  private readonly _stage: HTMLElement;
  private _markdown: IRenderMime.IRenderer | null = null;
  private _drawn: [IBlock, HTMLElement][] = [];
  private _hasMath = false;
  /** Milliseconds a formula has taken lately. */
  private _perFormula = 2;
}
