/** Brings a cell of a notebook into view; opens the notebook if need be. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { IDocumentWidget } from '@jupyterlab/docregistry';
import type { NotebookPanel } from '@jupyterlab/notebook';

/**
 * Show the first of some cells that is there.
 *
 * @param cells - Ids, the one that is wanted most first.
 * @param activate - Whether to bring the notebook to the front; else it must be there.
 */
export async function revealCell(
  app: JupyterFrontEnd,
  path: string,
  cells: readonly (string | null)[],
  activate: boolean
): Promise<void> {
  const panel = activate ? await opened(app, path) : inFront(app, path);
  if (!panel) {
    return;
  }
  await panel.context.ready;
  const notebook = panel.content;
  for (const id of cells) {
    const index = notebook.widgets.findIndex(each => each.model.id === id);
    if (id !== null && index >= 0) {
      await notebook.scrollToItem(index, 'smart');
      notebook.widgets[index].node.scrollIntoView({ block: 'nearest' });
      return;
    }
  }
}

async function opened(
  app: JupyterFrontEnd,
  path: string
): Promise<NotebookPanel | null> {
  const widget: unknown = await app.commands.execute('docmanager:open', {
    path,
    factory: 'Notebook'
  });
  return isNotebook(widget) ? widget : null;
}

function inFront(app: JupyterFrontEnd, path: string): NotebookPanel | null {
  for (const widget of app.shell.widgets('main')) {
    if (
      widget.isVisible &&
      isNotebook(widget) &&
      widget.context.localPath === path
    ) {
      return widget;
    }
  }
  return null;
}

function isNotebook(widget: unknown): widget is NotebookPanel {
  const { content, context } = (widget ?? {}) as Partial<IDocumentWidget>;
  return Boolean(context && content && 'scrollToItem' in content);
}
