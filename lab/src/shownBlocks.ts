/** Keeps rendered blocks in a node of the page. Knows no JupyterLab. */
import type { BlockJoin, IBlock } from './markdownScan';

/** What may hold a formula. */
export const MATH = /\$|\\\\[([]|\\begin\{/;

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

/** The blocks that stand in a node, in order, without wrappers around them. */
export class ShownBlocks {
  constructor(readonly host: HTMLElement) {}

  /** The same blocks after their nodes have been moved to another host. */
  movedTo(host: HTMLElement): ShownBlocks {
    const moved = new ShownBlocks(host);
    moved._shown = this._shown;
    return moved;
  }

  /** Let blocks with formulas count as changed. */
  forgetMath(): void {
    this._shown = this._shown.map(each =>
      MATH.test(each.markdown) ? { ...each, markdown: '' } : each
    );
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
      (block.join !== 'none' && this._continue(index, block.join, nodes)) ||
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
    join: Exclude<BlockJoin, 'none'>,
    nodes: ChildNode[]
  ): ChildNode[] | null {
    const first = nodes.find(node => node instanceof HTMLElement);
    const last = this._elementBefore(index);
    if (
      !first ||
      last?.tagName !== first.tagName ||
      !first.matches(ELEMENTS[join])
    ) {
      return null;
    }
    const source = partsOf(first);
    const target = partsOf(last);
    const parts: ChildNode[] = [...source.childNodes];
    if (join === 'fence' && !target.textContent?.endsWith('\n')) {
      parts.unshift(document.createTextNode('\n'));
    }
    if (join === 'text') {
      parts.unshift(document.createTextNode(' '));
    }
    target.append(...parts);
    const rest = nodes.slice(nodes.indexOf(first) + 1);
    return [...parts, ...this._insert(rest, this._anchor(index))];
  }

  /** The last element of the host before block `index`. */
  private _elementBefore(index: number): HTMLElement | null {
    for (let at = index - 1; at >= 0; at--) {
      const own = this._shown[at].nodes.filter(
        node => node instanceof HTMLElement && node.parentNode === this.host
      );
      if (own.length > 0) {
        return own[own.length - 1] as HTMLElement;
      }
    }
    return null;
  }

  private _shown: IShown[] = [];
}

const ELEMENTS = { fence: 'pre', table: 'table', list: 'ul, ol', text: 'p' };

/** The element whose children are rows, items or code. */
function partsOf(element: HTMLElement): Element {
  return element.tagName === 'P'
    ? element
    : (element.querySelector(':scope > tbody, :scope > code') ?? element);
}

function same(shown: IShown, block: IBlock): boolean {
  return shown.markdown === block.markdown && shown.join === block.join;
}
