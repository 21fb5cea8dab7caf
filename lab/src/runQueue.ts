/**
 * The order of cells that one page runs in one notebook.
 *
 * JupyterLab hands all cells of a command over at once and lets the kernel put code in
 * order. A prompt is not run by the kernel, so: a prompt waits for everything before it;
 * code waits for a prompt before it and otherwise goes to the kernel at once. A failed
 * cell before a prompt, or a failed prompt, stops what comes later in the same command,
 * never another command. Pure: knows no notebook.
 */

export type CellKind = 'prompt' | 'code' | 'other';

export interface IQueued {
  /** Settles as the cell's run does; false if it was not run. */
  readonly done: Promise<boolean>;
  /** Whether it waits for cells before it. */
  readonly waiting: boolean;
  /** Do not wait any longer. */
  release(): void;
  /** Do not run it, nor the later cells of its command. */
  withdraw(): void;
}

interface ICommand {
  stopped: boolean;
}

export class RunQueue {
  /**
   * Take a cell in.
   *
   * @param kind - A prompt, a code cell, or one that needs no turn.
   * @param run - Runs it; called at once if nothing is to be waited for.
   */
  add(kind: CellKind, run: () => Promise<boolean>): IQueued {
    const command = this._command();
    const entry = new Entry(kind, command, run);
    const before = kind === 'other' ? [] : this._before(kind);
    if (kind !== 'other') {
      this._entries.add(entry);
      void entry.settled.then(() => this._entries.delete(entry));
    }
    entry.start(before);
    return entry;
  }

  private _before(kind: CellKind): Entry[] {
    const entries = [...this._entries];
    if (kind === 'prompt') {
      return entries;
    }
    // Code before that prompt is waited for by the prompt itself.
    const prompt = entries.reverse().find(entry => entry.kind === 'prompt');
    return prompt ? [prompt] : [];
  }

  /** Cells that come in one turn of the event loop belong to one command. */
  private _command(): ICommand {
    if (this._current === null) {
      this._current = { stopped: false };
      void Promise.resolve().then(() => {
        this._current = null;
      });
    }
    return this._current;
  }

  private readonly _entries = new Set<Entry>();
  private _current: ICommand | null = null;
}

class Entry implements IQueued {
  constructor(
    readonly kind: CellKind,
    private readonly _command: ICommand,
    private readonly _run: () => Promise<boolean>
  ) {
    this.done = new Promise((resolve, reject) => {
      this._resolve = resolve;
      this._reject = reject;
    });
    this.settled = this.done.then(
      () => undefined,
      () => undefined
    );
    this._released = new Promise(resolve => {
      this._release = resolve;
    });
  }

  readonly done: Promise<boolean>;

  /** Resolves when done, well or badly. */
  readonly settled: Promise<void>;

  get waiting(): boolean {
    return this._waiting;
  }

  start(before: Entry[]): void {
    if (before.length === 0) {
      this._go();
      return;
    }
    this._waiting = true;
    const ahead = Promise.all(before.map(entry => entry.settled));
    void Promise.race([ahead, this._released]).then(() => this._go());
  }

  release(): void {
    this._release();
  }

  withdraw(): void {
    if (this._waiting) {
      this._command.stopped = true;
      this._release();
    }
  }

  private _go(): void {
    this._waiting = false;
    if (this._command.stopped) {
      this._resolve(false);
      return;
    }
    let running: Promise<boolean>;
    try {
      running = this._run();
    } catch (reason) {
      running = Promise.reject(reason);
    }
    running.then(
      success => {
        this._command.stopped ||= !success;
        this._resolve(success);
      },
      reason => {
        this._command.stopped = true;
        this._reject(reason);
      }
    );
  }

  private readonly _released: Promise<void>;
  private _resolve!: (success: boolean) => void;
  private _reject!: (reason: unknown) => void;
  private _release!: () => void;
  private _waiting = false;
}
