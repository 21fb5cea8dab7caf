import fc from 'fast-check';
import { marked } from 'marked';

import { MarkdownBlocks } from '../markdownBlocks';
import type { IBlock } from '../markdownScan';
import { ShownBlocks } from '../shownBlocks';

function draw(block: IBlock): ChildNode[] {
  const host = document.createElement('div');
  host.innerHTML = marked(block.markdown, { async: false }) as string;
  return [...host.childNodes];
}

/** Show blocks as a running answer does. */
function show(shown: ShownBlocks, blocks: readonly IBlock[]): void {
  const plan = shown.plan(blocks);
  if (!plan) {
    return;
  }
  let replaced = plan.to - plan.from;
  plan.blocks.forEach((block, offset) => {
    const last = offset === plan.blocks.length - 1;
    const room = last ? replaced : Math.min(1, replaced);
    shown.put(plan.from + offset, room, block, draw(block));
    replaced -= room;
  });
  if (replaced > 0) {
    shown.remove(plan.from + plan.blocks.length, replaced);
  }
}

function words(html: string): string {
  return html.replace(/>\s+</g, '><').replace(/\s+/g, ' ').trim();
}

function whole(source: string): string {
  return marked(source, { async: false }) as string;
}

const piece = fc.constantFrom(
  'One *paragraph* here.\n\n',
  '## Title\n\n',
  '```py\nx = 1\n\ny = 2\n```\n\n',
  '- a\n- b\n\n',
  '1. one\n\n2. two\n\n',
  '| a | b |\n|---|---|\n| 1 | 2 |\n\n',
  '> quote\n\n',
  '***\n\n'
);

const PHRASES = [
  'word ',
  'two words ',
  '**strong words** ',
  '*emphasis here* ',
  '`code and $x$` ',
  '[a link](https://example.org/a_b) ',
  '2 * 3 ',
  '$5 and $6 ',
  'snake_case ',
  '(aside) ',
  'a ``b ` c`` d ',
  'x < y ',
  '~~gone now~~ ',
  'escaped \\* star ',
  'end.\nNew line ',
  'Text:\n- item ',
  'quoted\n> lazy ',
  '\n# Title ',
  '<b>html</b> ',
  '\n\nNext paragraph '
];

/** Text of a few kinds of phrases; with all kinds it could never be cut. */
const phrases = fc
  .oneof(
    fc.subarray(PHRASES, { minLength: 1, maxLength: 5 }),
    fc.subarray(PHRASES.slice(0, 10), { minLength: 2, maxLength: 6 })
  )
  .chain(kinds =>
    fc.array(fc.constantFrom(...kinds), { minLength: 100, maxLength: 400 })
  );

describe('long paragraphs', () => {
  it('look the same in parts and whole, however they arrive', () => {
    let cut = 0;
    fc.assert(
      fc.property(phrases, fc.integer({ min: 50, max: 900 }), (parts, step) => {
        const source = `Start ${parts.join('')}`;
        const shown = new ShownBlocks(document.createElement('div'));
        const blocks = new MarkdownBlocks();
        for (let end = step; end < source.length + step; end += step) {
          show(shown, blocks.update(source.slice(0, end)));
        }
        cut += blocks.blocks.filter(each => each.join === 'text').length;
        expect(words(shown.host.innerHTML)).toBe(words(whole(source)));
      }),
      { numRuns: 80 }
    );
    expect(cut).toBeGreaterThan(5);
  });

  it('are cut where formulas are many', () => {
    const source = Array.from({ length: 800 }, (_, i) => `word $x_${i}$`);
    const blocks = new MarkdownBlocks().update(source.join(' '));
    expect(blocks.length).toBeGreaterThan(6);
    expect(blocks.slice(1).every(each => each.join === 'text')).toBe(true);
  });
});

describe('ShownBlocks', () => {
  it('always shows the source as it is, after any change of it', () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(piece, { maxLength: 7 }), { maxLength: 6 }),
        versions => {
          const shown = new ShownBlocks(document.createElement('div'));
          const blocks = new MarkdownBlocks();
          for (const version of versions) {
            const source = version.join('End of it.\n\n');
            show(shown, blocks.update(source));
            expect(words(shown.host.innerHTML)).toBe(words(whole(source)));
          }
        }
      ),
      { numRuns: 200 }
    );
  });

  it('leaves the nodes of finished blocks alone while text is appended', () => {
    const shown = new ShownBlocks(document.createElement('div'));
    const blocks = new MarkdownBlocks();
    show(shown, blocks.update('First.\n\nSec'));
    const first = shown.host.querySelector('p');
    show(shown, blocks.update('First.\n\nSecond.\n\nThird'));
    expect(shown.host.querySelector('p')).toBe(first);
    expect(shown.host.querySelectorAll('p')).toHaveLength(3);
  });

  it.each([
    ['list', Array.from({ length: 300 }, (_, i) => `- item ${i}\n`).join('')],
    [
      'counted list',
      Array.from({ length: 300 }, (_, i) => `${i + 1}. item ${i}\n`).join('')
    ],
    [
      'table',
      '| a | b |\n|---|---|\n' +
        Array.from({ length: 300 }, (_, i) => `| ${i} | value |\n`).join('')
    ],
    [
      'fence',
      '```\n' +
        Array.from({ length: 500 }, (_, i) => `line ${i}\n`).join('') +
        '```\n'
    ],
    [
      'list with wrongly indented parts',
      Array.from(
        { length: 200 },
        (_, i) => `${i + 10}. item\n   - part\n`
      ).join('')
    ]
  ])('shows a long %s as one, however it grows', (_, source) => {
    const text = `Before.\n\n${source}\nAfter.\n`;
    const shown = new ShownBlocks(document.createElement('div'));
    const blocks = new MarkdownBlocks();
    for (let end = 0; end < text.length + 97; end += 97) {
      show(shown, blocks.update(text.slice(0, end)));
    }
    expect(blocks.blocks.some(block => block.join !== 'none')).toBe(true);
    expect(words(shown.host.innerHTML)).toBe(words(whole(text)));

    show(shown, blocks.update(text.replace('Before.', 'Changed.')));
    expect(words(shown.host.innerHTML)).toBe(
      words(whole(text.replace('Before.', 'Changed.')))
    );
    show(shown, blocks.update('Nothing left.'));
    expect(words(shown.host.innerHTML)).toBe('<p>Nothing left.</p>');
  });
});
