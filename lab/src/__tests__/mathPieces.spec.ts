import fc from 'fast-check';

import { mathPieces } from '../mathPieces';

function host(html: string): HTMLElement {
  const node = document.createElement('div');
  node.innerHTML = html;
  return node;
}

const FORMULA = /\$\$[^$]+\$\$|\$[^$]+\$/g;

/** The texts of the pieces, each read while it is the current one. */
function texts(node: HTMLElement, most: number): string[] {
  const found: string[] = [];
  for (const piece of mathPieces(node, most)) {
    const seen = piece.cloneNode(true) as HTMLElement;
    seen.querySelectorAll('pre').forEach(code => code.remove());
    found.push(seen.textContent ?? '');
  }
  return found;
}

/** What would be typeset in each piece. */
function typeset(node: HTMLElement, most: number): string[][] {
  return texts(node, most).map(text => text.match(FORMULA) ?? []);
}

const element = fc.constantFrom(
  '<p>a $x$ b $y$ c $z$ d $u$ e $v$</p>',
  '<p>a $x$ <em>b $y$</em> and <b>$z$ $u$ $v$ $w$</b>, $q$.</p>',
  '<p>$$\n\\int x\n$$</p>',
  '<table><tbody><tr><td>$a$</td><td>$b$</td></tr><tr><td>$c$ $d$ $e$</td></tr></tbody></table>',
  '<ul><li>one $x$</li><li>two</li><li>$y$ $z$ $w$</li></ul>',
  '<pre><code>$HOME and $PATH</code></pre>',
  '<p>plain</p>'
);

describe('mathPieces', () => {
  it('holds each formula once, in order, few at a time, and leaves no trace', () => {
    fc.assert(
      fc.property(
        fc.array(element, { maxLength: 8 }),
        fc.integer({ min: 1, max: 6 }),
        (elements, most) => {
          const node = host(elements.join(''));
          const before = node.innerHTML;
          const expected = [...node.children].flatMap(child =>
            child.tagName === 'PRE'
              ? []
              : (child.textContent?.match(FORMULA) ?? [])
          );
          expect(typeset(node, most).flat()).toEqual(expected);
          texts(node, most);
          node.normalize();
          expect(node.innerHTML).toBe(before);
        }
      ),
      { numRuns: 300 }
    );
  });

  it('cuts one long text', () => {
    const text = Array.from({ length: 100 }, (_, i) => `word $x_{${i}}$`);
    const found = typeset(host(`<p>${text.join(' ')}</p>`), 10);
    expect(found.length).toBe(10);
    expect(found.every(each => each.length === 10)).toBe(true);
  });

  it('does not cut what MathJax may read in another way', () => {
    const odd = host('<p>$a \\$ b$ $c$ $d$ and ${$ x $}$ $e$ $f$</p>');
    const whole = odd.textContent;
    expect(texts(odd, 1)).toEqual([whole]);
  });
});
