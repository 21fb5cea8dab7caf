/** Work in short pieces, so that the page draws and reacts in between. */

/** Work is handed back to the page after this long (ms). */
const SLICE = 12;

/** Hands the thread back between pieces of work and adds up how long they took. */
export class Slices {
  isOver(): boolean {
    return performance.now() - this._began >= SLICE;
  }

  /** Let the page draw and react if this slice has been long enough. */
  async breathe(): Promise<void> {
    if (!this.isOver()) {
      return;
    }
    this._sum += performance.now() - this._began;
    await nextTask();
    this._began = performance.now();
  }

  /** Milliseconds of work so far. */
  worked(): number {
    return this._sum + performance.now() - this._began;
  }

  private _began = performance.now();
  private _sum = 0;
}

/** Go on in a task of its own, without the delay of a timer. */
function nextTask(): Promise<void> {
  return new Promise(resolve => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => resolve();
    port2.postMessage(null);
  });
}
