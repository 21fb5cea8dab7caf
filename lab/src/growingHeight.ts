/** Keeps a running answer from getting lower: half-written Markdown jumps. */
export class GrowingHeight {
  constructor(private readonly _host: HTMLElement) {}

  /** From now on the host gets only higher, whenever `applies` says so. */
  start(applies: () => boolean): void {
    this._applies = applies;
    this._observer.observe(this._host);
  }

  /** Forget the height reached so far. */
  free(): void {
    this._reached = 0;
    this._host.style.minHeight = '';
  }

  stop(): void {
    this._observer.disconnect();
  }

  private readonly _observer = new ResizeObserver(() => {
    const height = this._host.offsetHeight;
    if (this._applies() && height > this._reached) {
      this._reached = height;
      this._host.style.minHeight = `${height}px`;
    }
  });

  private _applies: () => boolean = () => false;
  private _reached = 0;
}
