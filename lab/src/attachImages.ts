/** Images for questions: from a file, dropped on the question, or from a cell's output. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { CodeCell, MarkdownCell } from '@jupyterlab/cells';
import type { Cell } from '@jupyterlab/cells';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { Notebook } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import { imageIcon } from '@jupyterlab/ui-components';

import { CommandIDs } from './commandIds';
import { promptIcon } from './icons';
import { fittingImage } from './imageFile';
import { insertPromptBelow } from './insertPrompt';
import { forEachRole } from './notebookPrompts';
import { freeName, outputImage, withImage } from './questionImages';
import { IPromptTracker } from './tokens';

class ImageAttacher {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _notebooks: INotebookTracker,
    private readonly _tracker: IPromptTracker,
    private readonly _trans: TranslationBundle
  ) {
    forEachRole(_tracker, (_, { cell, role, previous }) => {
      if (role?.kind === 'prompt' && previous?.kind !== 'prompt') {
        this._takeDrops(cell);
      }
    });
  }

  add(): void {
    const trans = this._trans;
    const { commands } = this._app;
    const args = {
      type: 'object',
      properties: {
        cellId: {
          type: 'string',
          description: trans.__('The cell; default: the active cell')
        }
      }
    };
    commands.addCommand(CommandIDs.attachImage, {
      label: trans.__('Attach Image to AI Prompt…'),
      icon: imageIcon,
      isEnabled: ({ cellId }) => this._question(cellId) !== null,
      execute: ({ cellId }) => {
        const cell = this._question(cellId);
        if (cell) {
          this._pick(cell);
        }
      },
      describedBy: { args }
    });
    commands.addCommand(CommandIDs.askAboutOutput, {
      label: trans.__('Ask AI about This Output'),
      icon: promptIcon,
      isEnabled: ({ cellId }) => this._coded(cellId) !== null,
      execute: ({ cellId }) => {
        const found = this._coded(cellId);
        if (found) {
          this._askAbout(found.notebook, found.cell);
        }
      },
      describedBy: { args }
    });
  }

  private _question(cellId: unknown): MarkdownCell | null {
    if (typeof cellId === 'string') {
      for (const prompts of this._tracker.notebooks) {
        const found = prompts.prompt(cellId);
        if (found) {
          return found.cell;
        }
      }
      return null;
    }
    const cell = this._notebooks.activeCell;
    const role = cell ? this._tracker.ofCell(cell)?.role(cell) : null;
    return cell && role?.kind === 'prompt' ? (cell as MarkdownCell) : null;
  }

  /** The code cell that is meant: named, clicked on, or active; it must have outputs. */
  private _coded(
    cellId: unknown
  ): { notebook: Notebook; cell: CodeCell } | null {
    const notebook = this._notebooks.currentWidget?.content;
    if (!notebook) {
      return null;
    }
    const node = this._app.contextMenuHitTest(each =>
      each.classList.contains('jp-CodeCell')
    );
    const cell =
      notebook.widgets.find(each =>
        typeof cellId === 'string'
          ? each.model.id === cellId
          : node !== undefined && each.node === node
      ) ?? (typeof cellId === 'string' ? null : notebook.activeCell);
    return cell && hasOutputs(cell) ? { notebook, cell } : null;
  }

  private _pick(cell: MarkdownCell): void {
    const input = document.createElement('input');
    input.type = 'file';
    input.accept = 'image/*';
    input.multiple = true;
    input.addEventListener('change', () => {
      void this._attachAll(cell, [...(input.files ?? [])]);
    });
    input.click();
  }

  /** A rendered question takes pictures as its editor does. */
  private _takeDrops(cell: MarkdownCell): void {
    const wanted = (event: DragEvent): boolean =>
      cell.rendered &&
      !cell.isDisposed &&
      [...(event.dataTransfer?.items ?? [])].some(
        item => item.kind === 'file' && item.type.startsWith('image/')
      );
    cell.node.addEventListener('dragover', event => {
      if (wanted(event)) {
        event.preventDefault();
      }
    });
    cell.node.addEventListener('drop', event => {
      if (wanted(event)) {
        event.preventDefault();
        event.stopPropagation();
        const files = [...(event.dataTransfer?.files ?? [])];
        void this._attachAll(
          cell,
          files.filter(file => file.type.startsWith('image/'))
        );
      }
    });
  }

  private async _attachAll(
    cell: MarkdownCell,
    files: readonly File[]
  ): Promise<void> {
    for (const file of files) {
      try {
        const { mediaType, data } = await fittingImage(file);
        if (!cell.isDisposed) {
          attach(cell, file.name, { [mediaType]: data });
        }
      } catch {
        Notification.error(
          this._trans.__('%1 cannot be read as an image.', file.name),
          { autoClose: 8000 }
        );
      }
    }
  }

  private _askAbout(notebook: Notebook, cell: CodeCell): void {
    const image = outputImage(cell.model.sharedModel.getOutputs());
    const above = notebook.widgets.indexOf(cell);
    if (image === null) {
      insertPromptBelow(notebook, above, {
        source: this._trans.__('About the output of the cell above: ')
      });
      return;
    }
    const name = image.name;
    insertPromptBelow(notebook, above, {
      source: `![${name}](attachment:${name})\n\n`,
      attachments: { [name]: image.bundle }
    });
  }
}

/** Attach one image at the caret, or at the end of a rendered question, in one step. */
function attach(
  cell: MarkdownCell,
  name: string,
  bundle: Record<string, string>
): void {
  const shared = cell.model.sharedModel as unknown as IAttaching;
  const attachments = shared.getAttachments() ?? {};
  const free = freeName(name, Object.keys(attachments));
  const source = shared.getSource();
  const editor = cell.rendered ? null : cell.editor;
  const at = editor
    ? editor.getOffsetAt(editor.getCursorPosition())
    : source.length;
  const text = withImage(source.slice(0, at), free);
  shared.transact(() => {
    shared.setAttachments({ ...attachments, [free]: bundle });
    shared.updateSource(at, at, text);
  });
}

/** What shared Markdown cells can do. */
interface IAttaching {
  getAttachments(): Record<string, unknown> | undefined;
  setAttachments(attachments: Record<string, unknown>): void;
  getSource(): string;
  updateSource(start: number, end: number, value: string): void;
  transact(change: () => void): void;
}

function hasOutputs(cell: Cell): cell is CodeCell {
  return (
    cell.model.type === 'code' &&
    (cell as CodeCell).model.sharedModel.outputs.length > 0
  );
}

export const attachImagesPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:images',
  description: 'Attaches images to questions.',
  autoStart: true,
  requires: [INotebookTracker, IPromptTracker],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    tracker: IPromptTracker,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    new ImageAttacher(app, notebooks, tracker, trans).add();
  }
};
