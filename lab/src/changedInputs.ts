/**
 * Which answers were made from something that has changed since. Pure: is told of cells
 * by their ids and asks for their hashes one by one.
 */
import { coversOutputs } from './inputHash';

/** Gives the hash of a cell as it stands; null if there is no such cell. */
export type HashOf = (cellId: string, withOutputs: boolean) => string | null;

export class ChangedInputs {
  /** @param hashOf - Looks at one cell. */
  constructor(hashOf: HashOf) {
    this._hashOf = hashOf;
  }

  /** Whether the inputs of a run are known. */
  knows(runId: string): boolean {
    return this._inputs.has(runId);
  }

  /** The cells that a run was made from and that have changed, or are gone. */
  changed(runId: string): ReadonlySet<string> {
    return this._changed.get(runId) ?? NONE;
  }

  /** Learn what a run was made from; its cells still have to be looked at. */
  add(runId: string, inputs: Readonly<Record<string, string>>): void {
    this.remove(runId);
    this._inputs.set(runId, inputs);
    this._changed.set(runId, new Set());
    for (const cellId of Object.keys(inputs)) {
      const runs = this._runs.get(cellId) ?? new Set<string>();
      this._runs.set(cellId, runs.add(runId));
    }
  }

  /** Nobody shows that run's answer any more. */
  remove(runId: string): void {
    for (const cellId of Object.keys(this._inputs.get(runId) ?? {})) {
      const runs = this._runs.get(cellId);
      runs?.delete(runId);
      if (runs?.size === 0) {
        this._runs.delete(cellId);
      }
    }
    this._inputs.delete(runId);
    this._changed.delete(runId);
  }

  /** Whether any run was made from the cell. */
  concerns(cellId: string): boolean {
    return this._runs.has(cellId);
  }

  /** Cells that some run was made from. */
  cells(): Iterable<string> {
    return this._runs.keys();
  }

  /**
   * Look at one cell again.
   *
   * @returns The runs whose answers are seen in another light now.
   */
  look(cellId: string): string[] {
    const news: string[] = [];
    const seen = new Map<boolean, string | null>();
    for (const runId of this._runs.get(cellId) ?? []) {
      const before = this._inputs.get(runId)?.[cellId] ?? '';
      const withOutputs = coversOutputs(before);
      if (!seen.has(withOutputs)) {
        seen.set(withOutputs, this._hashOf(cellId, withOutputs));
      }
      const changed = this._changed.get(runId);
      const differs = seen.get(withOutputs) !== before;
      if (changed && differs !== changed.has(cellId)) {
        if (differs) {
          changed.add(cellId);
        } else {
          changed.delete(cellId);
        }
        news.push(runId);
      }
    }
    return news;
  }

  private readonly _hashOf: HashOf;
  private readonly _inputs = new Map<
    string,
    Readonly<Record<string, string>>
  >();
  private readonly _runs = new Map<string, Set<string>>();
  private readonly _changed = new Map<string, Set<string>>();
}

const NONE: ReadonlySet<string> = new Set();
