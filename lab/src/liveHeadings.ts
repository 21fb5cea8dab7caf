/** The headings of a running answer for the table of contents. */
import { Cell } from '@jupyterlab/cells';
import type { MarkdownCell } from '@jupyterlab/cells';
import type { IMarkdownParser } from '@jupyterlab/rendermime';
import { TableOfContentsModel, TableOfContentsUtils } from '@jupyterlab/toc';
import type { TableOfContents } from '@jupyterlab/toc';

import { harmless } from './agentMarkdown';
import type { IBlock } from './markdownScan';

/**
 * At most so many new headings are told at once: JupyterLab puts all of them into the
 * page in one task, whether its table of contents is visible or not.
 */
export const STEP = 8;

/** Time until the next headings are told (ms). */
const PAUSE = 150;

/** What may hold a heading: a mark, an underline or HTML. */
const HEADING = /^ {0,3}(?:#|=+\s*$|-+\s*$)|<h\d/im;

type MarkdownHeading = TableOfContentsUtils.Markdown.IMarkdownHeading;

/**
 * Tells headings in steps, and reads only blocks that are new.
 *
 * It stands in for the cell's own `getHeadings`, which reads the whole text again after
 * every change of it.
 */
export class LiveHeadings {
  constructor(options: LiveHeadings.IOptions) {
    this._options = options;
    this._before = options.cell.getHeadings;
  }

  /** Answer for the cell from now on. */
  start(): void {
    this._ending = false;
    if (!this._active) {
      this._active = true;
      this._told = 0;
      const { cell } = this._options;
      this._before = cell.getHeadings;
      cell.getHeadings = async () => harmless(cell, await this._tell());
    }
  }

  /** Let the cell answer for itself as soon as all headings have been told. */
  finish(): void {
    if (this._active) {
      this._ending = true;
      this._again();
    }
  }

  dispose(): void {
    window.clearTimeout(this._timer);
    this._stop();
  }

  private async _tell(): Promise<Cell.IHeading[]> {
    const all = await this._read();
    this._told = Math.min(all.length, this._told + STEP);
    if (this._told < all.length) {
      this._again();
    } else if (this._ending) {
      this._stop();
    }
    return all.slice(0, this._told);
  }

  private async _read(): Promise<Cell.IHeading[]> {
    const headings: Cell.IHeading[] = [];
    let line = 0;
    for (const block of this._options.blocks()) {
      if (block.join === 'none' && HEADING.test(block.source)) {
        for (const heading of await this._of(block)) {
          const told = { ...heading, line: line + heading.line };
          headings.push({ ...told, type: Cell.HeadingType.Markdown });
        }
      }
      line += block.source.split('\n').length - 1;
    }
    return headings;
  }

  private async _of(block: IBlock): Promise<MarkdownHeading[]> {
    let headings = this._known.get(block);
    if (!headings) {
      headings = await TableOfContentsUtils.Markdown.parseHeadings(
        block.markdown,
        this._options.parser
      );
      this._known.set(block, headings);
    }
    return headings;
  }

  private _again(): void {
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(() => {
      const contents = this._options.contents();
      if (contents instanceof TableOfContentsModel) {
        contents.refresh().catch(console.error);
      } else {
        this._stop();
      }
    }, PAUSE);
  }

  private _stop(): void {
    if (this._active) {
      this._active = false;
      this._options.cell.getHeadings = this._before;
    }
  }

  private readonly _options: LiveHeadings.IOptions;
  private readonly _known = new WeakMap<IBlock, MarkdownHeading[]>();
  private _before: MarkdownCell['getHeadings'];
  private _told = 0;
  private _timer = 0;
  private _active = false;
  private _ending = false;
}

export namespace LiveHeadings {
  export interface IOptions {
    cell: MarkdownCell;
    parser: IMarkdownParser | null;
    /** The answer's blocks as they are now. */
    blocks: () => readonly IBlock[];
    /** The notebook's table of contents, if there is one. */
    contents: () => TableOfContents.Model | null;
  }
}
