/** Inserting a question into a notebook. */
import type { Notebook } from '@jupyterlab/notebook';

import { readRole } from './promptModel';
import { METADATA_KEY } from './wire';

export interface INewPrompt {
  readonly source?: string;
  /** MIME bundles by name. */
  readonly attachments?: Record<string, Record<string, string>>;
}

/** Insert a question below a cell, or below that question's answer, and open its editor. */
export function insertPromptBelow(
  notebook: Notebook,
  above: number,
  { source = '', attachments }: INewPrompt = {}
): void {
  const shared = notebook.model?.sharedModel;
  if (!shared) {
    return;
  }
  let index = shared.cells.length > 0 ? above + 1 : 0;
  const below = shared.cells[index];
  const role = below
    ? readRole(below.cell_type, below.getMetadata(METADATA_KEY))
    : null;
  if (
    role?.kind === 'answer' &&
    role.promptId === notebook.widgets[above]?.model.id
  ) {
    index += 1; // a question and its answer stay together
  }
  shared.insertCell(index, {
    cell_type: 'markdown',
    source,
    metadata: { [METADATA_KEY]: { isPromptCell: true } },
    ...(attachments ? { attachments } : {})
  });
  edit(notebook, index);
}

/** Open a cell that the person has just inserted in its editor, the caret at its end. */
function edit(notebook: Notebook, index: number): void {
  notebook.activeCellIndex = index;
  notebook.deselectAll();
  void notebook.scrollToItem(index, 'smart').then(() => {
    notebook.mode = 'edit';
    notebook.activate();
    const editor = notebook.activeCell?.editor;
    if (editor) {
      editor.setCursorPosition(
        editor.getPositionAt(editor.model.sharedModel.getSource().length) ?? {
          line: 0,
          column: 0
        }
      );
    }
  });
}
