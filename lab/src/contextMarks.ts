/** What the context of a question means for each cell. Pure. */
import type { ContextMode, IContextReport } from './contextWire';

/** What becomes of a cell. */
export type CellFate =
  'question' | 'included' | 'partial' | 'omitted' | 'excluded' | 'ineligible';

export interface ICellMark {
  readonly fate: CellFate;
  /** Why it is not eligible, as a code. */
  readonly reason: string | null;
  /** Whether its outputs were left out. */
  readonly outputsCut: boolean;
  /** Whether it goes as part of an earlier exchange. */
  readonly history: boolean;
}

/** The fate of every cell the report names. */
export function marksOf(report: IContextReport): Map<string, ICellMark> {
  const marks = new Map<string, ICellMark>();
  const outputs = new Set(
    report.truncations
      .filter(each => each.what === 'outputs')
      .map(each => each.id)
  );
  const history = new Set(report.history.flat());
  const put = (ids: readonly string[], fate: CellFate): void => {
    for (const id of ids) {
      marks.set(id, {
        fate,
        reason: null,
        outputsCut: outputs.has(id),
        history: history.has(id)
      });
    }
  };
  put(report.excluded, 'excluded');
  put(report.omitted, 'omitted');
  put(report.partial, 'partial');
  put(report.included, 'included');
  for (const { id, reason } of report.ineligible) {
    const fate = reason === 'current-question' ? 'question' : 'ineligible';
    marks.set(id, { fate, reason, outputsCut: false, history: false });
  }
  return marks;
}

export interface IBoxState {
  readonly checked: boolean;
  readonly mixed: boolean;
  /** Whether a click means something. */
  readonly enabled: boolean;
}

/**
 * How the Context box of a cell stands.
 *
 * In the default mode it shows what the next request holds; in the others what the mode
 * selects; in Custom what people ticked.
 *
 * @param flag - The cell's `contextInclude`, if it has one.
 */
export function boxState(
  mode: ContextMode,
  mark: ICellMark | null,
  flag: unknown
): IBoxState {
  const ineligible = mark?.fate === 'ineligible';
  if (mode === 'custom') {
    const checked = flag !== false;
    return {
      checked: checked && !ineligible,
      mixed: checked && mark?.fate === 'partial',
      enabled: !ineligible
    };
  }
  const goes = mark?.fate === 'included' || mark?.fate === 'partial';
  const selected = goes || (mode !== 'default' && mark?.fate === 'omitted');
  return { checked: selected, mixed: mark?.fate === 'partial', enabled: false };
}

/** Reasons that are the same in every mode: such a cell keeps no flag. */
const NEVER: ReadonlySet<string> = new Set([
  'current-question',
  'answer-to-current-question',
  'raw-cell',
  'empty-cell',
  'hidden-by-policy',
  'answer-not-complete',
  'orphan-answer'
]);

/**
 * The `contextInclude` flags that make Custom start with what another mode selects.
 *
 * @param ids - All cells of the notebook.
 */
export function seedFlags(
  report: IContextReport,
  ids: readonly string[]
): Map<string, boolean> {
  const selected = new Set(report.selected);
  const never = new Set(
    report.ineligible
      .filter(each => NEVER.has(each.reason))
      .map(each => each.id)
  );
  const flags = new Map<string, boolean>();
  for (const id of ids) {
    if (!never.has(id)) {
      flags.set(id, selected.has(id));
    }
  }
  return flags;
}

/** Whether Markdown text declares functions with `` &`name` ``. */
export function declaresTools(source: string): boolean {
  return source.includes('&`') && /&`[^`\n]+`/.test(source);
}
