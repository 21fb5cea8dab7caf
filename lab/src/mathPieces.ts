/** Cuts rendered text into pieces with few formulas each, to typeset one after the other. */

/** Elements that may hold certain children only, so that nothing can be wrapped in them. */
const STRICT = new Set([
  'UL',
  'OL',
  'DL',
  'TABLE',
  'THEAD',
  'TBODY',
  'TFOOT',
  'TR'
]);

/** Whole formulas in text; what is not balanced or escaped is left alone. */
const FORMULA =
  /\$\$[^$]+\$\$|\$[^$]+\$|\\\([^$]*?\\\)|\\\[[^$]*?\\\]|\\begin\{(\w+\*?)\}[^$]*?\\end\{\1\}/g;

/**
 * Elements that hold all formulas of `root`, each with about `most` of them or fewer.
 *
 * Parts of long texts are wrapped for as long as they are the current piece.
 */
export function* mathPieces(
  root: HTMLElement,
  most: number
): Generator<HTMLElement> {
  const total = formulas(root);
  if (total === 0) {
    return;
  }
  if (total <= most) {
    yield root;
    return;
  }
  if (STRICT.has(root.tagName)) {
    for (const child of [...root.children]) {
      yield* mathPieces(child as HTMLElement, most);
    }
    return;
  }
  cutTexts(root, most);
  for (const run of runs(root, most)) {
    const [first] = run;
    if (run.length === 1 && first instanceof HTMLElement) {
      yield* mathPieces(first, most);
      continue;
    }
    const wrapper = document.createElement(
      root.tagName === 'DIV' ? 'div' : 'span'
    );
    first.before(wrapper);
    wrapper.append(...run);
    yield wrapper;
    wrapper.replaceWith(...wrapper.childNodes);
  }
}

/** About how many formulas there are in a node. */
function formulas(node: Node): number {
  if (node instanceof Element && node.matches('pre, code')) {
    return 0;
  }
  return (node.textContent ?? '').match(FORMULA)?.length ?? 0;
}

/** Cut the long texts among the children of an element. */
function cutTexts(parent: Element, most: number): void {
  for (const node of [...parent.childNodes]) {
    if (node instanceof Text && formulas(node) > most) {
      cutText(node, most);
    }
  }
}

function cutText(node: Text, most: number): void {
  const text = node.data;
  if (/\\\$/.test(text)) {
    return;
  }
  const ends: number[] = [];
  let count = 0;
  for (const match of text.matchAll(FORMULA)) {
    if (!balanced(match[0])) {
      return;
    }
    if (++count % most === 0) {
      ends.push(match.index + match[0].length);
    }
  }
  for (const end of ends.reverse()) {
    if (end < node.length) {
      node.splitText(end);
    }
  }
}

/** Whether MathJax, which looks for the end outside of braces, finds the same end. */
function balanced(formula: string): boolean {
  const opened = formula.split('{').length;
  return opened === formula.split('}').length;
}

/** Neighbouring children with about `most` formulas together. */
function* runs(parent: Element, most: number): Generator<ChildNode[]> {
  let run: ChildNode[] = [];
  let count = 0;
  for (const node of [...parent.childNodes]) {
    const amount = formulas(node);
    if (run.length > 0 && count + amount > most) {
      yield run;
      run = [];
      count = 0;
    }
    run.push(node);
    count += amount;
  }
  if (count > 0) {
    yield run;
  }
}
