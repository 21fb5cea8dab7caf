/**
 * Cuts Markdown that is still being written into blocks that can be rendered one by one.
 *
 * The blocks, put together, are the source; rendered one after the other they look like
 * the source rendered whole. While text is only appended, all blocks but the last stay
 * the same objects. Pure: knows no document and no page.
 */

/** How the rendered block goes into the page. */
export type BlockJoin = 'none' | 'fence' | 'table' | 'list';

export interface IBlock {
  /** Offset of the block in the source, in UTF-16 units. */
  readonly start: number;
  /** Its part of the source. */
  readonly source: string;
  /** The Markdown to render in its place. */
  readonly markdown: string;
  /** Of which element of the previous block it is the next part. */
  readonly join: BlockJoin;
}

/** Lists and tables longer than this (UTF-16 units) are cut between items and rows. */
export const CHUNK_LENGTH = 2500;

/** Blank lines inside an unclosed HTML element stop holding a block together here. */
const HTML_LENGTH = 8000;

const MARKER = /^([ \t]*)([-+*]|\d{1,9}[.)])(?=[ \t]|\r?$)([ \t]*)/;
/** A line that is not complete yet and may still turn into a list item. */
const MARKER_BEGUN = /^(?:[-+*]|\d{1,9}[.)]?)\r?$/;
const FENCE = /^(`{3,}(?=[^`]*$)|~{3,})[ \t]*([^\s`]*)/;
const DELIMITER_ROW =
  /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\r?$/;
const BLANK = /^[ \t\r]*$/;
const DEFINITION = /^ {0,3}\[([^\]\n]+)\]:[ \t]*\S.*$/gm;
const TAG = /<(\/?)([a-zA-Z][a-zA-Z0-9-]*)(?:\s[^<>]*)?>/g;
const VOID = new Set([
  'area',
  'base',
  'br',
  'col',
  'embed',
  'hr',
  'img',
  'input',
  'link',
  'meta',
  'source',
  'track',
  'wbr'
]);
/** HTML that ends at its own mark and not at a blank line. */
const RAW_HTML: [RegExp, RegExp][] = [
  [
    /^<(?:script|pre|style|textarea)(?:[\s>]|$)/i,
    /<\/(?:script|pre|style|textarea)>/i
  ],
  [/^<!--/, /-->/],
  [/^<\?/, /\?>/],
  [/^<!\[CDATA\[/, /\]\]>/],
  [/^<![a-zA-Z]/, />/]
];
/** Fences whose text means something only when it is all there. */
const WHOLE_FENCES = new Set(['mermaid']);

interface IFence {
  readonly mark: string;
  readonly language: string;
  /** Columns of the list item the fence stands in; 0 at the top level. */
  readonly indent: number;
}

/** What a block is known to be when it begins in the middle of a longer element. */
interface IEntry {
  readonly join: BlockJoin;
  readonly fence: IFence | null;
  readonly opening: string;
  readonly marker: string;
}

const FRESH: IEntry = {
  join: 'none',
  fence: null,
  opening: '',
  marker: ''
};

interface IScanned extends IBlock {
  readonly entry: IEntry;
  /** The markdown without definitions from elsewhere. */
  readonly own: string;
}

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

/** One walk over the lines from a block's beginning to the end of the source. */
class Scan {
  constructor(source: string, from: number, entry: IEntry) {
    this._source = source;
    this._start = from;
    this._position = from;
    this._begin(entry);
  }

  run(): IScanned[] {
    const source = this._source;
    while (this._position < source.length) {
      const newline = source.indexOf('\n', this._position);
      const end = newline < 0 ? source.length : newline;
      this._line(source.slice(this._position, end), newline >= 0);
      this._position = newline < 0 ? source.length : newline + 1;
      if (this._closeAfterLine) {
        this._cut(this._position, FRESH);
      }
    }
    this._cut(source.length, FRESH);
    return this._out;
  }

  private _begin(entry: IEntry): void {
    this._entry = entry;
    this._kind = entry.join === 'none' ? 'new' : entry.join;
    this._fence = entry.fence;
    this._opening = entry.opening;
    this._marker = entry.marker;
    this._offsets = [];
    this._blank = false;
    this._previous = '';
    this._raw = null;
    this._html = false;
    this._depth = 0;
    this._closeAfterLine = false;
  }

  /** End the block at `end` and begin another with what is known of it. */
  private _cut(end: number, entry: IEntry): void {
    if (end > this._start) {
      const source = this._source.slice(this._start, end);
      const own = this._markdown(source);
      this._out.push({
        start: this._start,
        source,
        markdown: own,
        own,
        join: this._entry.join,
        entry: this._entry
      });
    }
    this._start = end;
    this._begin(entry);
  }

  private _line(line: string, complete: boolean): void {
    if (this._raw !== null) {
      this._closeAfterLine = complete && this._raw.test(line);
      return;
    }
    if (this._fence !== null && this._inFence(line, complete)) {
      return;
    }
    if (BLANK.test(line)) {
      this._blank ||= this._kind !== 'new' && complete;
      return;
    }
    if (this._blank && this._endsBefore(line, complete)) {
      this._cut(this._position, FRESH);
    }
    if (complete && this._opensFence(line)) {
      return;
    }
    if (this._kind === 'new') {
      this._classify(line, complete);
    } else {
      this._continue(line, complete);
    }
    this._blank = false;
    this._previous = line;
  }

  /** Whether the line belongs to the fence that is open. */
  private _inFence(line: string, complete: boolean): boolean {
    const fence = this._fence as IFence;
    const indent = columns(line);
    if (fence.indent > 0 && !BLANK.test(line) && indent < fence.indent) {
      // The list item that held the fence has ended, and the fence with it.
      this._fence = null;
      return false;
    }
    if (complete && closes(line, fence)) {
      this._fence = null;
      this._closeAfterLine = this._kind === 'fence';
    } else if (
      complete &&
      this._kind === 'fence' &&
      this._length() > CHUNK_LENGTH &&
      !WHOLE_FENCES.has(fence.language)
    ) {
      this._cut(this._position, {
        join: 'fence',
        fence,
        opening: this._opening,
        marker: ''
      });
    }
    return true;
  }

  /** Whether a block ends at the blank line before this one. */
  private _endsBefore(line: string, complete: boolean): boolean {
    if (this._depth > 0 && this._length() < HTML_LENGTH) {
      return false;
    }
    if (/^[ \t]/.test(line)) {
      return false;
    }
    if (this._kind === 'list') {
      return !MARKER.test(line) && (complete || !MARKER_BEGUN.test(line));
    }
    return true;
  }

  private _opensFence(line: string): boolean {
    let text = line;
    let column = 0;
    for (let m = MARKER.exec(text); m; m = MARKER.exec(text)) {
      column += m[0].length;
      text = text.slice(m[0].length);
    }
    const bare = text.replace(/^[ \t]+/, '');
    const indent = column + text.length - bare.length;
    const match = FENCE.exec(bare.replace(/\r$/, ''));
    if (!match) {
      return false;
    }
    const offset =
      column > 0
        ? column
        : Math.max(0, ...this._offsets.filter(each => each <= indent));
    if (indent - offset > 3) {
      return false;
    }
    const fence = { mark: match[1], language: match[2], indent: offset };
    if (offset > 0 || this._depth > 0) {
      if (column > 0) {
        this._classifyItem(line);
      }
    } else {
      if (this._kind !== 'new') {
        if (openMath(this._source.slice(this._start, this._position))) {
          this._fence = fence;
          return true;
        }
        this._cut(this._position, FRESH);
      }
      this._kind = 'fence';
      this._opening = line;
    }
    this._fence = fence;
    this._blank = false;
    this._previous = line;
    return true;
  }

  /** A fence may stand on the very line of a list item. */
  private _classifyItem(line: string): void {
    if (this._kind === 'new') {
      this._classify(line, true);
    } else {
      this._continue(line, true);
    }
  }

  private _classify(line: string, complete: boolean): void {
    if (this._beginsList(line)) {
      return;
    }
    this._kind = 'text';
    const html = /^ {0,3}(<.*)$/.exec(line.replace(/\r$/, ''));
    if (html && complete) {
      const raw = RAW_HTML.find(([begin]) => begin.test(html[1]));
      if (raw) {
        if (raw[1].test(html[1])) {
          this._closeAfterLine = true;
        } else {
          this._raw = raw[1];
        }
      } else if (/^<\/?[a-zA-Z]/.test(html[1])) {
        this._depth = Math.max(0, this._depth + depthOf(line));
        this._html = true;
      }
    }
  }

  private _beginsList(line: string): boolean {
    const marker = MARKER.exec(line);
    if (!marker || columns(line) > 3) {
      return false;
    }
    this._kind = 'list';
    this._marker = marker[2].slice(-1);
    this._item(marker);
    return true;
  }

  private _continue(line: string, complete: boolean): void {
    if (this._html && complete) {
      this._depth = Math.max(0, this._depth + depthOf(line));
    }
    if (this._kind === 'list') {
      this._continueList(line);
    } else if (this._kind === 'table') {
      this._continueTable(line);
    } else if (!this._html && this._beginsList(line)) {
      // A list may follow its heading or sentence without a blank line.
    } else if (
      complete &&
      this._kind === 'text' &&
      this._previous.includes('|') &&
      DELIMITER_ROW.test(line) &&
      this._isSecondLine()
    ) {
      this._kind = 'table';
      this._opening = `${this._previous}\n${line}`;
    }
  }

  private _continueList(line: string): void {
    const marker = MARKER.exec(line);
    if (!marker) {
      return;
    }
    const kind = marker[2].slice(-1);
    const top =
      columns(line) < (this._offsets[0] ?? 4) &&
      (this._marker === '' || kind === this._marker);
    if (top && this._length() > CHUNK_LENGTH) {
      this._cut(this._position, {
        join: 'list',
        fence: null,
        opening: '',
        marker: kind
      });
    }
    this._item(marker);
  }

  private _item(marker: RegExpExecArray): void {
    const indent = columns(marker[1]);
    while (
      this._offsets.length > 0 &&
      this._offsets[this._offsets.length - 1] > indent
    ) {
      this._offsets.pop();
    }
    const space = marker[3].length;
    this._offsets.push(
      indent + marker[2].length + (space >= 1 && space <= 4 ? space : 1)
    );
  }

  private _continueTable(line: string): void {
    if (line.includes('|') && this._length() > CHUNK_LENGTH) {
      this._cut(this._position, {
        join: 'table',
        fence: null,
        opening: this._opening,
        marker: ''
      });
    }
  }

  private _isSecondLine(): boolean {
    const before = this._source.slice(this._start, this._position);
    return before.trimStart().indexOf('\n') === before.trimStart().length - 1;
  }

  private _length(): number {
    return this._position - this._start;
  }

  /** What to render for the block from its part of the source. */
  private _markdown(source: string): string {
    if (this._kind === 'fence') {
      return this._fenceMarkdown(source);
    }
    return this._entry.join === 'table'
      ? `${this._entry.opening}\n${source}`
      : source;
  }

  private _fenceMarkdown(source: string): string {
    const fence = this._fence;
    let text =
      this._entry.join === 'fence'
        ? `${this._entry.opening}\n${source}`
        : source;
    if (fence === null) {
      return text;
    }
    // Still open: hide a half-written closing mark, close it for the renderer.
    const last = text.lastIndexOf('\n') + 1;
    const tail = text.slice(last).trim();
    if (last > 0 && tail.length > 0 && fence.mark.startsWith(tail)) {
      text = text.slice(0, last);
    }
    if (WHOLE_FENCES.has(fence.language)) {
      text = text.replace(this._opening, fence.mark);
    }
    return `${text}${text.endsWith('\n') ? '' : '\n'}${fence.mark}`;
  }

  private readonly _source: string;
  private readonly _out: IScanned[] = [];
  private _start: number;
  private _position: number;
  private _entry: IEntry = FRESH;
  private _kind: 'new' | 'text' | 'list' | 'table' | 'fence' = 'new';
  private _fence: IFence | null = null;
  /** The fence's first line, or the table's header and delimiter row. */
  private _opening = '';
  private _marker = '';
  /** Content columns of the list items that are open. */
  private _offsets: number[] = [];
  private _blank = false;
  private _previous = '';
  private _raw: RegExp | null = null;
  private _html = false;
  /** HTML elements that are open. */
  private _depth = 0;
  private _closeAfterLine = false;
}

/** Whether Lab would look for the end of a formula in what follows. */
function openMath(text: string): boolean {
  const bare = text.replace(/`[^`\n]*`/g, '').replace(/\\[$\\]/g, '');
  const dollars = (bare.match(/\$/g) ?? []).length;
  const begins = (text.match(/\\begin\{/g) ?? []).length;
  const ends = (text.match(/\\end\{/g) ?? []).length;
  return dollars % 2 === 1 || begins > ends;
}

/** Elements opened less elements closed on a line. */
function depthOf(line: string): number {
  let depth = 0;
  for (const match of line.replace(/`[^`]*`/g, '').matchAll(TAG)) {
    if (!VOID.has(match[2].toLowerCase()) && !match[0].endsWith('/>')) {
      depth += match[1] ? -1 : 1;
    }
  }
  return depth;
}

function closes(line: string, fence: IFence): boolean {
  const text = line.replace(/^[ \t]+/, '').trimEnd();
  const excess = columns(line) - fence.indent;
  return (
    excess <= 3 &&
    text.length >= fence.mark.length &&
    text.startsWith(fence.mark) &&
    text === fence.mark[0].repeat(text.length)
  );
}

/** Width of the leading white space; a tab reaches to the next multiple of four. */
function columns(line: string): number {
  let width = 0;
  for (const character of line) {
    if (character === ' ') {
      width++;
    } else if (character === '\t') {
      width += 4 - (width % 4);
    } else {
      break;
    }
  }
  return width;
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
  if (block.join !== 'none' || !block.source.includes('[')) {
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
