/** How people call a cell: by its place in the notebook. */
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

/** "cell 7", counted from the top; says so if the cell is gone. */
export function cellName(
  panel: NotebookPanel,
  cellId: string,
  trans: TranslationBundle
): string {
  const place = panel.content.widgets.findIndex(
    cell => cell.model.id === cellId
  );
  return place < 0
    ? trans.__('a cell that is gone')
    : trans.__('cell %1', place + 1);
}
