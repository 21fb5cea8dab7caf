/** A small mark on cells that the agent has edited, and the command that takes authorship out. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { Cell, ICellModel } from '@jupyterlab/cells';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';

import { readEdited, withoutAuthorship } from './authorship';
import type { IAuthorship } from './authorship';
import { CommandIDs } from './commandIds';
import { promptIcon } from './icons';
import { forEachNotebook } from './notebookPrompts';
import { nameOf } from './presence';
import { IPromptTracker } from './tokens';
import { METADATA_KEY } from './wire';

const CLASS = 'nbinline-EditedMark';

class AuthorshipMarks {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _trans: TranslationBundle
  ) {}

  /** Mark the cells of a notebook, now and later. */
  follow(panel: NotebookPanel): void {
    const follow = (): void => {
      const { model } = panel.content;
      model?.cells.changed.connect((_, { newIndex, newValues }) => {
        this._add(
          panel,
          panel.content.widgets.slice(newIndex, newIndex + newValues.length)
        );
      });
      this._add(panel, panel.content.widgets);
    };
    panel.content.modelChanged.connect(follow);
    follow();
  }

  private _add(panel: NotebookPanel, cells: readonly Cell[]): void {
    for (const cell of cells) {
      if (!this._known.has(cell)) {
        this._known.add(cell);
        cell.model.metadataChanged.connect(
          (_: ICellModel, { key }: { key: string }) => {
            if (key === METADATA_KEY && !cell.isDisposed) {
              this._mark(panel, cell);
            }
          }
        );
        this._mark(panel, cell);
      }
    }
  }

  private _mark(panel: NotebookPanel, cell: Cell): void {
    const edited = readEdited(cell.model.getMetadata(METADATA_KEY));
    let mark = cell.node.querySelector<HTMLElement>(`:scope > .${CLASS}`);
    if (edited === null) {
      mark?.remove();
      return;
    }
    if (mark === null) {
      mark = document.createElement('span');
      mark.className = CLASS;
      mark.setAttribute('role', 'img');
      promptIcon.element({
        container: mark,
        tag: 'span',
        elementSize: 'small'
      });
      cell.node.append(mark);
    }
    const self = this._app.serviceManager.user.identity;
    const said = authorshipText(
      edited,
      edited.author === null
        ? null
        : (nameOf(panel, edited.author, self) ?? edited.authorName),
      this._trans
    );
    mark.title = said;
    mark.setAttribute('aria-label', said);
  }

  private readonly _known = new WeakSet<Cell>();
}

/** One fact a line: what was done by which model for whom, when, in which run. */
export function authorshipText(
  { made, model, at, runId }: IAuthorship,
  person: string | null,
  trans: TranslationBundle
): string {
  const time = at === null ? NaN : Date.parse(at);
  const by = model === null || model === '' ? trans.__('AI') : model;
  return [
    made ? trans.__('Written by %1', by) : trans.__('Edited by %1', by),
    person !== null && trans.__('asked by %1', person),
    !Number.isNaN(time) && new Date(time).toLocaleString(),
    runId !== null && trans.__('run %1', runId)
  ]
    .filter(Boolean)
    .join('\n');
}

/** Ask, then take out of all cells who had them written. */
async function stripAuthorship(
  model: INotebookModel,
  trans: TranslationBundle
): Promise<void> {
  const { button } = await showDialog({
    title: trans.__('Take out AI authorship?'),
    body: trans.__(
      'Answers and edited cells will no longer say who asked, which model and run wrote them, and when. Texts stay, and so do questions and answers. This changes the notebook for everybody.'
    ),
    buttons: [
      Dialog.cancelButton(),
      Dialog.warnButton({ label: trans.__('Take out') })
    ],
    defaultButton: 0
  });
  if (!button.accept || model.isDisposed) {
    return;
  }
  model.sharedModel.transact(() => {
    for (const cell of model.cells) {
      const before: unknown = cell.getMetadata(METADATA_KEY);
      const after = withoutAuthorship(before);
      if (after === undefined && before !== undefined) {
        cell.deleteMetadata(METADATA_KEY);
      } else if (after !== before) {
        cell.setMetadata(METADATA_KEY, after);
      }
    }
  });
}

export const authorshipPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:authorship',
  description: 'Marks cells that the agent has edited; takes authorship out.',
  autoStart: true,
  requires: [IPromptTracker, INotebookTracker],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    tracker: IPromptTracker,
    notebooks: INotebookTracker,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    const marks = new AuthorshipMarks(app, trans);
    forEachNotebook(tracker, prompts => marks.follow(prompts.panel));
    app.commands.addCommand(CommandIDs.stripAuthorship, {
      label: trans.__('Take Out AI Authorship…'),
      caption: trans.__('Before publishing: who asked, which model, which run'),
      isEnabled: () => Boolean(notebooks.currentWidget?.content.model),
      execute: async () => {
        const model = notebooks.currentWidget?.content.model;
        if (model) {
          await stripAuthorship(model, trans);
        }
      },
      describedBy: { args: { type: 'object', properties: {} } }
    });
  }
};
