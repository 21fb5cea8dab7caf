/**
 * Cuts Markdown that is still being written into blocks that can be rendered one by one.
 *
 * The blocks, put together, are the source; rendered one after the other they look like
 * the source rendered whole. While text is only appended, all blocks but the last stay
 * the same objects. Pure: knows no document and no page.
 */

import { FRESH, Scan } from './markdownScan';
import type { IBlock, IScanned } from './markdownScan';

const DEFINITION = /^ {0,3}\[([^\]\n]+)\]:[ \t]*\S.*$/gm;

/** The blocks of one growing source. */
export class MarkdownBlocks {
  /** The blocks of the last source given. */
  get blocks(): readonly IBlock[] {
    return this._blocks;
  }

  /**
   * Take the whole source as it is now.
   *
   * Blocks before the first change keep their identity.
   */
  update(source: string): readonly IBlock[] {
    if (source === this._source) {
      return this._blocks;
    }
    const same = commonPrefix(this._source, source);
    let keep = 0;
    while (
      keep < this._blocks.length &&
      this._blocks[keep].start + this._blocks[keep].source.length <= same
    ) {
      keep++;
    }
    // The end of a block hangs on how the next one begins.
    const appended = same === this._source.length;
    keep = Math.max(0, appended ? this._blocks.length - 1 : keep - 1);
    const from = keep < this._blocks.length ? this._blocks[keep].start : 0;
    const entry = keep < this._blocks.length ? this._blocks[keep].entry : FRESH;
    const kept = this._blocks.slice(0, keep);
    const scanned = new Scan(source, from, entry).run();
    this._source = source;
    this._blocks = this._define(kept, scanned);
    return this._blocks;
  }

  /** Give blocks the link definitions that stand in other blocks. */
  private _define(kept: IScanned[], scanned: IScanned[]): IScanned[] {
    const blocks = [...kept, ...scanned];
    const definitions = new Map<string, string>();
    for (const block of blocks) {
      if (block.join !== 'none' || !block.source.includes(']:')) {
        continue;
      }
      for (const match of block.source.matchAll(DEFINITION)) {
        const label = match[1].toLowerCase();
        if (!definitions.has(label)) {
          definitions.set(label, match[0]);
        }
      }
    }
    if (definitions.size === 0 && !this._defined) {
      return blocks;
    }
    this._defined = definitions.size > 0;
    return blocks.map(block => {
      const markdown = withDefinitions(block, definitions);
      return markdown === block.markdown ? block : { ...block, markdown };
    });
  }

  private _source = '';
  private _blocks: IScanned[] = [];
  private _defined = false;
}

function commonPrefix(a: string, b: string): number {
  if (b.startsWith(a)) {
    return a.length;
  }
  const length = Math.min(a.length, b.length);
  let index = 0;
  while (index < length && a.charCodeAt(index) === b.charCodeAt(index)) {
    index++;
  }
  return index;
}

function withDefinitions(
  block: IScanned,
  definitions: Map<string, string>
): string {
  const isProse = block.join === 'none' || block.join === 'text';
  if (!isProse || !block.source.includes('[')) {
    return block.own;
  }
  const lower = block.source.toLowerCase();
  const needed: string[] = [];
  for (const [label, line] of definitions) {
    if (lower.includes(`[${label}]`) && !block.source.includes(line)) {
      needed.push(line);
    }
  }
  return needed.length > 0
    ? `${block.own.trimEnd()}\n\n${needed.join('\n')}\n`
    : block.own;
}
