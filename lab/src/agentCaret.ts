/** The agent's label and caret at the end of a rendered answer. */
import type { IAgentPresence } from './presence';

/** Elements whose end is the end of their last child. */
const DESCEND = new Set([
  'P',
  'UL',
  'OL',
  'LI',
  'PRE',
  'CODE',
  'BLOCKQUOTE',
  'TABLE',
  'TBODY',
  'THEAD',
  'TR',
  'TD',
  'TH',
  'H1',
  'H2',
  'H3',
  'H4',
  'H5',
  'H6',
  'DIV',
  'DETAILS',
  'EM',
  'STRONG',
  'SPAN'
]);

export class AgentCaret {
  constructor() {
    this._node = document.createElement('span');
    this._node.className = 'nbinline-AgentCaret';
    this._node.setAttribute('aria-hidden', 'true');
  }

  /** Show whose caret it is; the name is drawn by the style, it is no text of the answer. */
  describe(presence: IAgentPresence | null): void {
    const name = presence?.name ?? '';
    if (this._node.dataset.name !== name) {
      this._node.dataset.name = name;
    }
    this._node.style.setProperty(
      '--nbinline-agent-color',
      presence?.color ?? 'var(--jp-brand-color1)'
    );
  }

  /** Put the caret behind the last words in `host`. */
  moveTo(host: HTMLElement): void {
    this._place(host);
    const first = host.firstElementChild?.contains(this._node) ?? false;
    const place = first ? 'beside' : 'above';
    if (this._node.dataset.place !== place) {
      this._node.dataset.place = place;
    }
  }

  private _place(host: Node): void {
    let parent = host;
    for (;;) {
      const last = lastContent(parent, this._node);
      if (!(last instanceof HTMLElement) || !DESCEND.has(last.tagName)) {
        if (
          this._node.parentNode !== parent ||
          this._node.previousSibling !== last
        ) {
          parent.insertBefore(this._node, last ? last.nextSibling : null);
        }
        return;
      }
      parent = last;
    }
  }

  remove(): void {
    this._node.remove();
  }

  private readonly _node: HTMLElement;
}

/** The last child that shows anything, the caret itself apart. */
function lastContent(parent: Node, caret: Node): ChildNode | null {
  let last = parent.lastChild;
  while (
    last &&
    (last === caret ||
      last instanceof Comment ||
      (last instanceof Text && !last.data.trim()) ||
      (last instanceof HTMLElement &&
        last.classList.contains('jp-InternalAnchorLink')))
  ) {
    last = last.previousSibling;
  }
  return last;
}
