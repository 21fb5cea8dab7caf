/** Draws the blocks that have changed and puts them into the page, bit by bit. */
import type { BlockRenderer, IDrawn } from './blockRenderer';
import type { IPlan, ShownBlocks } from './shownBlocks';
import type { Slices } from './slices';

/** Many blocks are put into the page together, this often (ms): layout costs as well. */
const PLACE = 100;

/** But no more text than this at once (UTF-16 units). */
const PLACE_LENGTH = 4000;

export namespace AnswerDrawing {
  export interface IOptions {
    plan: IPlan;
    shown: ShownBlocks;
    renderer: BlockRenderer;
    clock: Slices;
    /** Whether the page still wants it. */
    wanted: () => boolean;
    /** Some blocks have been put into their places. */
    placed: () => void;
  }
}

/** One change of the page, done in slices. */
export class AnswerDrawing {
  constructor(private readonly _options: AnswerDrawing.IOptions) {
    const { from, to } = _options.plan;
    this._index = from;
    this._replaced = to - from;
  }

  /** Blocks drawn so far. */
  get drawn(): number {
    return this._drawn;
  }

  async run(): Promise<void> {
    const { plan, shown, renderer, clock } = this._options;
    for (const block of plan.blocks) {
      await renderer.draw(block);
      this._drawn++;
      this._length += block.markdown.length;
      const isLast = this._drawn === plan.blocks.length;
      if (!isLast && !clock.isOver() && this._length < PLACE_LENGTH) {
        continue;
      }
      await clock.breathe();
      this._ready.push(...(await renderer.take(clock)));
      if (!this._options.wanted()) {
        return;
      }
      if (isLast || this._isDue()) {
        this._place();
        await clock.breathe();
      }
    }
    if (this._replaced > 0) {
      shown.remove(this._index, this._replaced);
    }
  }

  private _isDue(): boolean {
    return (
      this._length >= PLACE_LENGTH || performance.now() - this._placed >= PLACE
    );
  }

  private _place(): void {
    const { plan, shown } = this._options;
    const end = plan.from + plan.blocks.length;
    for (const { block, nodes } of this._ready) {
      const isLast = this._index === end - 1;
      const room = isLast ? this._replaced : Math.min(1, this._replaced);
      shown.put(this._index, room, block, nodes);
      this._replaced -= room;
      this._index++;
    }
    this._ready = [];
    this._length = 0;
    this._options.placed();
    this._placed = performance.now();
  }

  private _index: number;
  /** Old blocks that are still to make room. */
  private _replaced: number;
  private _drawn = 0;
  /** Length of what is drawn and not in its place. */
  private _length = 0;
  private _ready: IDrawn[] = [];
  private _placed = performance.now();
}
