/** Adds the activity panel to the left area. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { ActivityPanel } from './activityPanel';
import { cellName } from './cellNames';
import { CommandIDs } from './commandIds';
import { promptIcon } from './icons';
import { IRunClient, IServerModel } from './tokens';

interface IFile {
  readonly cells: readonly {
    readonly id?: string;
    readonly source: string | string[];
  }[];
}

/** The text of a question, from the notebook if it is open, else from its file. */
async function questionIn(
  app: JupyterFrontEnd,
  notebooks: INotebookTracker,
  path: string,
  cellId: string
): Promise<string> {
  const open = notebooks.find(each => each.context.localPath === path);
  for (const cell of open?.content.widgets ?? []) {
    if (cell.model.id === cellId) {
      return cell.model.sharedModel.getSource();
    }
  }
  try {
    const file = await app.serviceManager.contents.get(path);
    const { cells } = file.content as IFile;
    const found = cells.find(each => each.id === cellId)?.source ?? '';
    return Array.isArray(found) ? found.join('') : found;
  } catch {
    // Whoever may watch a run need not be able to read its notebook.
    return '';
  }
}

export const activityPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:activity',
  description: 'Shows what agents do in the notebooks one may see.',
  autoStart: true,
  requires: [IRunClient, IServerModel, INotebookTracker],
  optional: [ILayoutRestorer, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    client: IRunClient,
    server: IServerModel,
    notebooks: INotebookTracker,
    restorer: ILayoutRestorer | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    const panel = new ActivityPanel({
      app,
      client,
      server,
      currentPath: () => notebooks.currentWidget?.context.localPath ?? '',
      cellName: (path, id) => {
        const open = notebooks.find(each => each.context.localPath === path);
        return open ? cellName(open, id, trans) : '';
      },
      question: (path, id) => questionIn(app, notebooks, path, id),
      trans
    });
    panel.id = 'nbinline-activity';
    panel.title.icon = promptIcon;
    panel.title.caption = trans.__('Agent activity');
    app.shell.add(panel, 'left', { rank: 620, type: 'Agent Activity' });
    restorer?.add(panel, panel.id);
    app.commands.addCommand(CommandIDs.openActivity, {
      label: trans.__('Agent Activity'),
      execute: () => app.shell.activateById(panel.id),
      describedBy: { args: { type: 'object', properties: {} } }
    });
  }
};
