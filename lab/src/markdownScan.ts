/** One walk over the lines of Markdown that tells where blocks end. Pure. */
import {
  BLANK,
  closes,
  columns,
  DELIMITER_ROW,
  depthOf,
  FENCE,
  MARKER,
  MARKER_BEGUN,
  openMath,
  RAW_HTML,
  WHOLE_FENCES
} from './markdownLines';
import type { IFence } from './markdownLines';
import { textCut, TEXT_LENGTH } from './textCut';

/** How the rendered block goes into the page. */
export type BlockJoin = 'none' | 'fence' | 'table' | 'list' | 'text';

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

/** What a block is known to be when it begins in the middle of a longer element. */
export interface IEntry {
  readonly join: BlockJoin;
  readonly fence: IFence | null;
  readonly opening: string;
  readonly marker: string;
}

export const FRESH: IEntry = {
  join: 'none',
  fence: null,
  opening: '',
  marker: ''
};

/** The rest of a paragraph. */
const REST: IEntry = { ...FRESH, join: 'text' };

export interface IScanned extends IBlock {
  readonly entry: IEntry;
  /** The markdown without definitions from elsewhere. */
  readonly own: string;
}

/** One walk over the lines from a block's beginning to the end of the source. */
export class Scan {
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
      const cut = this._textCut(end);
      if (cut > 0) {
        this._cut(cut, REST);
        this._position = cut;
        continue;
      }
      this._position = newline < 0 ? source.length : newline + 1;
      if (this._closeAfterLine) {
        this._cut(this._position, FRESH);
      }
    }
    this._cut(source.length, FRESH);
    return this._out;
  }

  /** Where a long paragraph is cut; 0 if it is not. */
  private _textCut(end: number): number {
    const isText = this._kind === 'text' && !this._html && this._raw === null;
    if (!isText || this._fence !== null || end - this._start < TEXT_LENGTH) {
      return 0;
    }
    const cut = textCut(this._source.slice(this._start, end));
    return cut < 0 ? 0 : this._start + cut;
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
      this._entry.join === 'none' &&
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
