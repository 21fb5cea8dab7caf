/**
 * Asks the server what a question would send, not too often and never with an answer that
 * is out of date. Pure: knows no notebook.
 */
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { IContextReport } from './contextWire';
import { RunError } from './errors';

/** Quiet time before a change is looked at (ms). */
export const QUIET = 400;

export interface IPreviewState {
  /** `idle` until somebody wants it; `stale` when something has changed since. */
  readonly kind: 'idle' | 'checking' | 'ready' | 'failed';
  /** The last report, kept while a new one is asked for. */
  readonly report: IContextReport | null;
  /** When the report came (ms since the epoch). */
  readonly at: number | null;
  readonly problem: string | null;
}

const IDLE: IPreviewState = {
  kind: 'idle',
  report: null,
  at: null,
  problem: null
};

export class Preview {
  /**
   * @param ask - Asks the server; null while there is nothing to ask about.
   */
  constructor(ask: () => Promise<IContextReport> | null) {
    this._ask = ask;
  }

  get state(): IPreviewState {
    return this._state;
  }

  get changed(): ISignal<Preview, void> {
    return this._changed;
  }

  /** Whether somebody looks; without anybody nothing is asked. */
  get wanted(): boolean {
    return this._wanted;
  }

  set wanted(wanted: boolean) {
    if (wanted === this._wanted) {
      return;
    }
    this._wanted = wanted;
    if (wanted) {
      void this.check();
    } else {
      this._generation++;
      clearTimeout(this._timer);
      this._set({ ...this._state, kind: 'idle' });
    }
  }

  /** Something changed: what is on its way is out of date. */
  invalidate(): void {
    this._generation++;
    if (!this._wanted) {
      return;
    }
    clearTimeout(this._timer);
    this._timer = setTimeout(() => void this.check(), QUIET);
    if (this._state.kind !== 'checking') {
      this._set({ ...this._state, kind: 'checking' });
    }
  }

  /** Forget everything: it is about another question now. */
  reset(): void {
    this._state = IDLE;
    this.invalidate();
    this._changed.emit();
  }

  /** Ask now; resolves when the answer of this or a later generation is there. */
  async check(): Promise<void> {
    clearTimeout(this._timer);
    const generation = ++this._generation;
    const asked = this._ask();
    if (asked === null) {
      this._set(IDLE);
      return;
    }
    this._set({ ...this._state, kind: 'checking' });
    let next: IPreviewState;
    try {
      const report = await asked;
      next = { kind: 'ready', report, at: Date.now(), problem: null };
    } catch (reason) {
      const problem =
        reason instanceof RunError ? reason.message : String(reason);
      next = { ...this._state, kind: 'failed', problem };
    }
    if (generation === this._generation) {
      this._set(next);
    }
  }

  dispose(): void {
    this._wanted = false;
    this._generation++;
    clearTimeout(this._timer);
    Signal.clearData(this);
  }

  private _set(state: IPreviewState): void {
    this._state = state;
    this._changed.emit();
  }

  private readonly _ask: () => Promise<IContextReport> | null;
  private readonly _changed = new Signal<Preview, void>(this);
  private _state = IDLE;
  private _wanted = false;
  private _generation = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
