import fc from 'fast-check';
import { marked } from 'marked';

import { MarkdownBlocks } from '../markdownBlocks';
import { CHUNK_LENGTH } from '../markdownScan';
import type { IBlock } from '../markdownScan';

const PIECES = [
  'A sentence with **bold**, `code` and [a link](https://example.org).',
  'Two lines\nof one paragraph',
  '# A heading',
  'A heading\n=========',
  '## A heading\nand its text at once',
  '- one\n- two\n  - nested\n- three',
  '- loose\n\n- items\n\n  with a paragraph',
  '1. step\n   ```python\n   x = 1\n\n   y = 2\n   ```\n2. next\n\n3. last',
  'Steps:\n1. do\n   ```sh\n   ls\n\n   pwd\n   ```\n2. more',
  '- ```js\n  let a\n\n  let b\n  ```\n- after',
  '* * *',
  '| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 | 4 |',
  '```python\ndef f():\n\n    return "- no list"\n```',
  '~~~\n``` not a fence\n\n# no heading\n~~~',
  'Text and\n```\na fence at once\n```\nand text again',
  '````md\n```\ninner\n```\n````',
  '    indented = 1\n\n    code = 2',
  '> quote\n> ```\n> code\n> ```\n\n> another',
  '<div>\n\n**inside**\n\n</div>',
  '<details>\n<summary>More</summary>\n\n```\n<div>\n```\n\n</details>',
  '<!-- a comment\n\nover lines -->',
  '<b>inline</b> html',
  '$$\na = b\n- c\n$$',
  'It costs $5\n```\nx\n```',
  '![image](a.png)',
  'מימין לשמאל و 👩‍👩‍👧 é',
  'a | b without a table',
  '***',
  'line with two spaces  \nbreak'
];

const source = fc
  .array(
    fc.tuple(
      fc.constantFrom(...PIECES),
      fc.constantFrom('\n\n', '\n\n', '\n\n\n', '\n \n')
    ),
    { maxLength: 8 }
  )
  .map(parts => parts.map(([piece, gap]) => piece + gap).join(''));

/** Anything at all, made of the characters that mean something. */
const noise = fc
  .array(
    fc.constantFrom(
      ...'`~-*+1.) \t\n\n\n>|:#<>/[]$\\aé'.split(''),
      '```',
      '- ',
      '<div>',
      '</div>',
      '|---|',
      '\r\n',
      '    '
    ),
    { maxLength: 60 }
  )
  .map(parts => parts.join(''));

function split(text: string): readonly IBlock[] {
  return new MarkdownBlocks().update(text);
}

function html(markdown: string): string {
  return (marked(markdown, { async: false, gfm: true }) as string)
    .replace(/\s+/g, ' ')
    .trim();
}

function rendered(text: string): string {
  return split(text)
    .map(block => html(block.markdown))
    .filter(each => each.length > 0)
    .join(' ')
    .trim();
}

describe('MarkdownBlocks', () => {
  it('cuts any text into parts that are the text', () => {
    fc.assert(
      fc.property(fc.oneof(source, noise, fc.string()), text => {
        const blocks = split(text);
        expect(blocks.map(block => block.source).join('')).toBe(text);
        let offset = 0;
        for (const block of blocks) {
          expect(block.start).toBe(offset);
          expect(block.source.length).toBeGreaterThan(0);
          offset += block.source.length;
        }
      }),
      { numRuns: 500 }
    );
  });

  it('gives the same blocks however the text arrives, and keeps finished ones', () => {
    fc.assert(
      fc.property(
        fc.oneof(source, noise),
        fc.array(fc.integer({ min: 1, max: 25 }), { minLength: 1 }),
        (text, steps) => {
          const blocks = new MarkdownBlocks();
          let position = 0;
          let turn = 0;
          while (position < text.length) {
            const before = blocks.blocks.slice(0, -1);
            position += steps[turn++ % steps.length];
            const after = blocks.update(text.slice(0, position));
            before.forEach((block, index) => {
              expect(after[index].source).toBe(block.source);
              if (!text.includes(']:')) {
                expect(after[index]).toBe(block);
              }
            });
          }
          expect(plain(blocks.blocks)).toEqual(plain(split(text)));
        }
      ),
      { numRuns: 500 }
    );
  });

  it('gives the same blocks after any edit', () => {
    fc.assert(
      fc.property(
        fc.oneof(source, noise),
        noise,
        fc.nat(),
        fc.nat(40),
        (text, inserted, at, removed) => {
          const blocks = new MarkdownBlocks();
          blocks.update(text);
          const from = text.length > 0 ? at % (text.length + 1) : 0;
          const edited =
            text.slice(0, from) + inserted + text.slice(from + removed);
          blocks.update(edited);
          expect(plain(blocks.blocks)).toEqual(plain(split(edited)));
        }
      ),
      { numRuns: 500 }
    );
  });

  it('looks the same rendered in parts and whole', () => {
    fc.assert(
      fc.property(source, text => {
        expect(rendered(text)).toBe(html(text));
      }),
      { numRuns: 500 }
    );
  });

  it.each(PIECES)('renders %j in parts as whole', piece => {
    const text = `Before.\n\n${piece}\n\nAfter.\n`;
    expect(rendered(text)).toBe(html(text));
  });

  it('does not let one paragraph wait for another', () => {
    const blocks = split(
      'one\n\ntwo\n\n```\na\n\nb\n```\nthree\n\n| a |\n|---|\n'
    );
    expect(blocks.map(block => block.source)).toEqual([
      'one\n\n',
      'two\n\n',
      '```\na\n\nb\n```\n',
      'three\n\n',
      '| a |\n|---|\n'
    ]);
  });

  it('closes a fence that is still open and hides its half-written end', () => {
    expect(split('```py\nx = 1\n``')[0].markdown).toBe('```py\nx = 1\n```');
    expect(split('```py\nx = 1')[0].markdown).toBe('```py\nx = 1\n```');
    expect(split('```mermaid\ngraph TD\n')[0].markdown).toBe(
      '```\ngraph TD\n```'
    );
    expect(split('```mermaid\ngraph TD\n```\n')[0].markdown).toBe(
      '```mermaid\ngraph TD\n```\n'
    );
  });

  it('cuts a long fence into parts of its lines', () => {
    const lines = Array.from({ length: 600 }, (_, i) => `value_${i} = ${i}\n`);
    const blocks = split('```python\n' + lines.join('') + '```\nafter');
    expect(blocks.length).toBeGreaterThan(3);
    for (const block of blocks.slice(1, -1)) {
      expect(block.join).toBe('fence');
      expect(block.source.length).toBeLessThan(CHUNK_LENGTH + 100);
      expect(block.markdown.startsWith('```python\n')).toBe(true);
    }
    expect(blocks[blocks.length - 1]).toMatchObject({
      join: 'none',
      source: 'after'
    });
    const code = blocks
      .slice(0, -1)
      .map(block => block.markdown.replace(/^```.*\n/gm, ''))
      .join('')
      .replace(/```/g, '');
    expect(code).toBe(lines.join(''));
  });

  it('cuts a long table between rows and repeats its header', () => {
    const rows = Array.from(
      { length: 300 },
      (_, i) => `| ${i} | value ${i} |\n`
    );
    const blocks = split('| a | b |\n|---|---|\n' + rows.join('') + '\nafter');
    const parts = blocks.filter(block => block.join === 'table');
    expect(parts.length).toBeGreaterThan(0);
    for (const part of parts) {
      expect(part.markdown.startsWith('| a | b |\n|---|---|\n| ')).toBe(true);
      expect(html(part.markdown)).toContain('<table>');
    }
  });

  it('cuts a long list between items and goes on counting', () => {
    const items = Array.from(
      { length: 200 },
      (_, i) => `${i + 1}. item number ${i}\n`
    );
    const blocks = split(items.join(''));
    expect(blocks.length).toBeGreaterThan(1);
    for (const part of blocks.slice(1)) {
      expect(part.join).toBe('list');
      expect(part.source).toMatch(/^\d+\. item number/);
    }
  });

  it('gives a block the link definitions that stand elsewhere', () => {
    const text = 'See [the page][p].\n\nMore.\n\n[p]: https://example.org\n';
    expect(rendered(text)).toBe(html(text));
    const blocks = new MarkdownBlocks();
    blocks.update('See [the page][p].\n\nMore.\n\n');
    expect(blocks.blocks[0].markdown).not.toContain('example.org');
    blocks.update(text);
    expect(blocks.blocks[0].markdown).toContain('[p]: https://example.org');
    blocks.update('See [the page][p].\n\nMore.\n\n');
    expect(blocks.blocks[0].markdown).not.toContain('example.org');
  });
});

function plain(blocks: readonly IBlock[]): object[] {
  return blocks.map(({ start, source, markdown, join }) => ({
    start,
    source,
    markdown,
    join
  }));
}
