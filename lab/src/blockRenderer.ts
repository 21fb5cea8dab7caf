/** Renders Markdown blocks with JupyterLab's own renderer and keeps them in a page. */
import { AttachmentsResolver } from '@jupyterlab/attachments';
import type { MarkdownCell } from '@jupyterlab/cells';
import { MimeModel } from '@jupyterlab/rendermime';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';

import type { BlockJoin, IBlock } from './markdownBlocks';

const MIME_TYPE = 'text/markdown';

/** What may hold a formula. */
const MATH = /\$|\\\\[([]|\\begin\{/;

/** The nodes of one block in the page. */
interface IShown {
  readonly markdown: string;
  readonly join: BlockJoin;
  readonly nodes: ChildNode[];
}

/** One change of the page: blocks `from … to` make room for `blocks`. */
export interface IPlan {
  readonly from: number;
  readonly to: number;
  readonly blocks: readonly IBlock[];
}

/** Renders single blocks next to the cell, out of sight. */
export class BlockRenderer {
  constructor(cell: MarkdownCell, rendermime: IRenderMimeRegistry) {
    const own = rendermime.clone({
      resolver: new AttachmentsResolver({
        parent: rendermime.resolver ?? undefined,
        model: cell.model.attachments
      })
    });
    this._typesetter = rendermime.latexTypesetter;
    this._renderer = own.createRenderer(MIME_TYPE);
    this._renderer.addClass('jp-MarkdownOutput');
    this._stage = document.createElement('div');
    this._stage.className = 'nbinline-Stage';
    this._stage.setAttribute('aria-hidden', 'true');
    this._stage.appendChild(this._renderer.node);
    cell.node.appendChild(this._stage);
  }

  /**
   * Render one block.
   *
   * @returns The nodes, formulas typeset, in no document.
   */
  async render(markdown: string): Promise<ChildNode[]> {
    const host = this._renderer.node;
    host.replaceChildren();
    if (!markdown.trim()) {
      return [];
    }
    const model = new MimeModel({ data: { [MIME_TYPE]: markdown } });
    await this._renderer.renderModel(model);
    if (this._typesetter && MATH.test(markdown)) {
      // Formulas need a place in the page to be measured.
      await this._typesetter.typeset(host);
    }
    const nodes = [...host.childNodes];
    host.replaceChildren();
    return nodes;
  }

  dispose(): void {
    this._stage.remove();
    this._renderer.dispose();
  }

  private readonly _renderer: IRenderMime.IRenderer;
  private readonly _typesetter: IRenderMime.ILatexTypesetter | null;
  private readonly _stage: HTMLElement;
}

/** The blocks that stand in a node, in order, without wrappers around them. */
export class ShownBlocks {
  constructor(readonly host: HTMLElement) {}

  /** The same blocks after their nodes have been moved to another host. */
  movedTo(host: HTMLElement): ShownBlocks {
    const moved = new ShownBlocks(host);
    moved._shown = this._shown;
    return moved;
  }

  /** What must change so that `blocks` are shown; null if nothing. */
  plan(blocks: readonly IBlock[]): IPlan | null {
    const shown = this._shown;
    let from = 0;
    while (
      from < shown.length &&
      from < blocks.length &&
      same(shown[from], blocks[from])
    ) {
      from++;
    }
    let end = 0;
    while (
      end < shown.length - from &&
      end < blocks.length - from &&
      same(shown[shown.length - 1 - end], blocks[blocks.length - 1 - end])
    ) {
      end++;
    }
    // A block that goes on in a changed one is to be put in again.
    while (end > 0 && blocks[blocks.length - end].join !== 'none') {
      end--;
    }
    const to = shown.length - end;
    const fresh = blocks.slice(from, blocks.length - end);
    return from === to && fresh.length === 0
      ? null
      : { from, to, blocks: fresh };
  }

  /** Put one rendered block in the place of the `replaced` blocks at `index`. */
  put(
    index: number,
    replaced: number,
    block: IBlock,
    nodes: ChildNode[]
  ): void {
    const old = this._shown.slice(index, index + replaced);
    const anchor = this._anchor(index + replaced);
    const placed =
      (block.join !== 'none' && this._continue(index, block, nodes)) ||
      this._insert(nodes, anchor);
    old.forEach(each => each.nodes.forEach(node => node.remove()));
    this._shown.splice(index, replaced, {
      markdown: block.markdown,
      join: block.join,
      nodes: placed
    });
  }

  /** Take blocks out. */
  remove(index: number, count: number): void {
    for (const { nodes } of this._shown.splice(index, count)) {
      nodes.forEach(node => node.remove());
    }
  }

  private _insert(nodes: ChildNode[], anchor: Node | null): ChildNode[] {
    const fragment = document.createDocumentFragment();
    fragment.append(...nodes);
    this.host.insertBefore(fragment, anchor);
    return nodes;
  }

  /** The first node of the blocks from `index` on that stands in the host itself. */
  private _anchor(index: number): Node | null {
    for (const { nodes } of this._shown.slice(index)) {
      const node = nodes.find(each => each.parentNode === this.host);
      if (node) {
        return node;
      }
    }
    return null;
  }

  /** Move the parts of a block into the element it goes on in, if that is there. */
  private _continue(
    index: number,
    block: IBlock,
    nodes: ChildNode[]
  ): ChildNode[] | null {
    const selector = SELECTORS[block.join as Exclude<BlockJoin, 'none'>];
    const source = nodes
      .filter(node => node instanceof Element)
      .map(node =>
        node.matches(selector.split(' ')[0]) ? inner(node, selector) : null
      )
      .find(each => each !== null);
    const target = this._open(index, selector);
    if (!source || !target) {
      return null;
    }
    const parts = [...source.childNodes];
    target.append(...parts);
    const rest = nodes.filter(
      node => !node.contains(source) && node.nodeType === Node.ELEMENT_NODE
    );
    return [...parts, ...this._insert(rest, this._anchor(index))];
  }

  /** The last list, table or code before block `index`. */
  private _open(index: number, selector: string): Element | null {
    for (let at = index - 1; at >= 0; at--) {
      const { join, nodes } = this._shown[at];
      if (join === 'none') {
        const last = nodes
          .filter(node => node instanceof Element)
          .filter(node => node.matches(selector.split(' ')[0]))
          .pop();
        return last ? inner(last, selector) : null;
      }
    }
    return null;
  }

  private _shown: IShown[] = [];
}

const SELECTORS = {
  fence: 'pre code',
  table: 'table tbody',
  list: 'ul,ol'
};

function inner(element: Element, selector: string): Element | null {
  const child = selector.split(' ')[1];
  return child ? element.querySelector(child) : element;
}

function same(shown: IShown, block: IBlock): boolean {
  return shown.markdown === block.markdown && shown.join === block.join;
}
