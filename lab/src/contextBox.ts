/** The Context and Tools boxes of one cell. Plain DOM: a notebook may have thousands. */
import type { Cell } from '@jupyterlab/cells';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { keepPresses } from './cellBar';
import { choose } from './choices';
import { boxState, declaresTools } from './contextMarks';
import type { ICellMark } from './contextMarks';
import { noteText } from './contextText';
import type { ContextMode } from './contextWire';
import { readRole } from './promptModel';
import { METADATA_KEY } from './wire';

export interface IBoxSituation {
  readonly mode: ContextMode;
  /** Null before the server has said. */
  readonly mark: ICellMark | null;
  /** Whether the cell stands above the question, or is it. */
  readonly above: boolean;
  /** Why people may not change anything here, or null. */
  readonly locked: string | null;
}

export class ContextBox extends Widget {
  constructor(cell: Cell, trans: TranslationBundle) {
    super();
    this.addClass('nbinline-ContextBox');
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', trans.__('AI context of this cell'));
    this.node.dataset.lmSuppressShortcuts = 'true';
    this._cell = cell;
    this._trans = trans;
    this._context = new Box(this.node, trans.__('Context'), checked =>
      choose(cell.model, { contextInclude: checked })
    );
    this._tools = new Box(this.node, trans.__('Tools'), checked =>
      choose(cell.model, { toolsInclude: checked })
    );
    this._note = document.createElement('span');
    this._note.className = 'nbinline-ContextBox-note';
    this.node.append(this._note);
  }

  draw(situation: IBoxSituation): void {
    const { mode, mark, above, locked } = situation;
    const trans = this._trans;
    const ours = this._cell.model.getMetadata(METADATA_KEY) as
      Record<string, unknown> | undefined;
    const state = boxState(mode, mark, ours?.contextInclude);
    const isQuestion = mark?.fate === 'question';
    this._context.show({
      ...state,
      hidden: isQuestion,
      enabled: state.enabled && locked === null,
      title:
        locked ??
        (mode === 'custom'
          ? trans.__('Whether this cell may go along with questions')
          : trans.__('Choose the context mode Custom to pick cells yourself'))
    });
    const declares = this._declares();
    this._tools.show({
      checked: ours?.toolsInclude !== false || isQuestion,
      mixed: false,
      hidden: !declares,
      enabled: above && !isQuestion,
      title: toolsTitle(isQuestion, above, trans)
    });
    this._note.textContent = noteText(mark, above, trans);
    this._note.dataset.fate = mark?.fate ?? '';
  }

  handleEvent(event: Event): void {
    keepPresses(this, event);
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    for (const type of ['mousedown', 'dblclick', 'keydown']) {
      this.node.addEventListener(type, this);
    }
  }

  protected override onBeforeDetach(msg: Message): void {
    for (const type of ['mousedown', 'dblclick', 'keydown']) {
      this.node.removeEventListener(type, this);
    }
    super.onBeforeDetach(msg);
  }

  private _declares(): boolean {
    const { model } = this._cell;
    return (
      model.type === 'markdown' &&
      declaresTools(model.sharedModel.getSource()) &&
      readRole(model.type, model.getMetadata(METADATA_KEY))?.kind !== 'answer'
    );
  }

  private readonly _cell: Cell;
  private readonly _trans: TranslationBundle;
  private readonly _context: Box;
  private readonly _tools: Box;
  private readonly _note: HTMLElement;
}

interface IBoxLook {
  readonly checked: boolean;
  readonly mixed: boolean;
  readonly enabled: boolean;
  readonly hidden: boolean;
  readonly title: string;
}

/** A labelled checkbox that only writes to the page what has changed. */
class Box {
  constructor(
    parent: HTMLElement,
    label: string,
    change: (checked: boolean) => void
  ) {
    this._label = document.createElement('label');
    this._input = document.createElement('input');
    this._input.type = 'checkbox';
    this._input.addEventListener('change', () => change(this._input.checked));
    this._label.append(this._input, label);
    parent.append(this._label);
  }

  show(look: IBoxLook): void {
    const said = JSON.stringify(look);
    if (
      said === this._said &&
      this._input.checked === (look.checked && !look.mixed)
    ) {
      return;
    }
    this._said = said;
    this._label.hidden = look.hidden;
    this._label.title = look.title;
    this._input.disabled = !look.enabled;
    this._input.checked = look.checked && !look.mixed;
    this._input.indeterminate = look.mixed;
  }

  private readonly _label: HTMLLabelElement;
  private readonly _input: HTMLInputElement;
  private _said = '';
}

function toolsTitle(
  isQuestion: boolean,
  above: boolean,
  trans: TranslationBundle
): string {
  if (isQuestion) {
    return trans.__('Tools that the question names are always offered');
  }
  return above
    ? trans.__('Whether the tools that this cell names are offered')
    : trans.__('Cells below the question offer no tools');
}
