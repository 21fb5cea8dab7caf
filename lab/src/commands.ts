/** The commands, their palette entries, keys and toolbar button. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import type { MarkdownCell } from '@jupyterlab/cells';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  refreshIcon,
  runIcon,
  stopIcon,
  undoIcon
} from '@jupyterlab/ui-components';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { CommandIDs } from './commandIds';
import { promptIcon } from './icons';
import { insertPromptBelow } from './insertPrompt';
import { canContinue, canRevert, isRunning } from './promptModel';
import { revertRun } from './revertRun';
import {
  IAnnouncer,
  IPromptTracker,
  IRunClient,
  IRunController,
  IServerModel
} from './tokens';
import type { IAnswerCell, INotebookPrompts, IPromptCell } from './tokens';

/** The question and answer that a command is about. */
interface ITarget {
  readonly prompts: INotebookPrompts;
  readonly prompt: IPromptCell | null;
  readonly answer: IAnswerCell | null;
}

class Commands {
  constructor(options: Commands.IOptions) {
    this._app = options.app;
    this._notebooks = options.notebooks;
    this._tracker = options.tracker;
    this._runs = options.runs;
    this._client = options.client;
    this._server = options.server;
    this._announcer = options.announcer;
    this._trans = options.trans;
  }

  add(): void {
    const trans = this._trans;
    const { commands } = this._app;
    commands.addCommand(CommandIDs.insertPrompt, {
      label: trans.__('AI prompt'),
      caption: trans.__('Insert an AI prompt below the selected cell'),
      icon: promptIcon,
      isEnabled: () => this._notebooks.currentWidget !== null,
      execute: () => this._insertPrompt(),
      describedBy: { args: { type: 'object', properties: {} } }
    });
    this._addTargeted(CommandIDs.run, {
      label: trans.__('Run AI Prompt'),
      icon: runIcon,
      test: target => target.prompt !== null,
      execute: target => this._run(target)
    });
    this._addTargeted(CommandIDs.runAgain, {
      label: trans.__('Run AI Prompt Again'),
      icon: refreshIcon,
      test: target => target.prompt !== null && target.answer !== null,
      execute: target => this._run(target)
    });
    this._addTargeted(CommandIDs.stop, {
      label: trans.__('Stop AI Answer'),
      icon: stopIcon,
      test: target => this._canStop(target),
      execute: target => this._stop(target)
    });
    this._addTargeted(CommandIDs.continueAnswer, {
      label: trans.__('Continue AI Answer'),
      icon: runIcon,
      test: ({ answer }) => answer !== null && canContinue(answer.answer),
      execute: async ({ answer }) => {
        if (answer) {
          await this._runs.continueAnswer(answer.cell);
        }
      }
    });
    this._addTargeted(CommandIDs.revertRun, {
      label: trans.__('Revert AI Run'),
      icon: undoIcon,
      test: ({ answer }) => answer !== null && this._canRevert(answer),
      execute: target => this._revert(target)
    });
    commands.addCommand(CommandIDs.revealAnswer, {
      label: trans.__('Reveal the Running AI Answer'),
      isEnabled: () => this._running() !== null,
      execute: () => this._reveal(),
      describedBy: { args: { type: 'object', properties: {} } }
    });
  }

  private _addTargeted(id: string, options: Commands.ITargeted): void {
    this._app.commands.addCommand(id, {
      label: options.label,
      icon: options.icon,
      isEnabled: args => {
        const target = this._target(args);
        return target !== null && options.test(target);
      },
      execute: async args => {
        const target = this._target(args);
        if (target) {
          await options.execute(target);
        }
      },
      describedBy: {
        args: {
          type: 'object',
          properties: {
            cellId: {
              type: 'string',
              description: this._trans.__(
                'Cell of the question or answer; default: the active cell'
              )
            }
          }
        }
      }
    });
  }

  private _target(args: ReadonlyPartialJSONObject): ITarget | null {
    const { cellId } = args;
    if (typeof cellId !== 'string') {
      const notebook = this._notebooks.currentWidget?.content;
      const prompts = this._tracker.of(notebook);
      const cell = notebook?.activeCell;
      return prompts && cell ? targetOf(prompts, cell as MarkdownCell) : null;
    }
    const current = this._tracker.of(this._notebooks.currentWidget?.content);
    for (const prompts of current
      ? [current, ...this._tracker.notebooks]
      : this._tracker.notebooks) {
      for (const [cell] of prompts.cells()) {
        if (cell.model.id === cellId) {
          return targetOf(prompts, cell);
        }
      }
    }
    return null;
  }

  private _insertPrompt(): void {
    const notebook = this._notebooks.currentWidget?.content;
    if (notebook) {
      insertPromptBelow(notebook, notebook.activeCellIndex);
    }
  }

  private async _run({ prompt }: ITarget): Promise<void> {
    if (!prompt) {
      return;
    }
    const waiting = this._runs.queued.get(prompt.cell.model.id);
    if (waiting) {
      waiting.release();
      return;
    }
    prompt.cell.rendered = true;
    await this._runs.run(prompt.cell);
  }

  private _canStop({ prompt, answer }: ITarget): boolean {
    const id = prompt?.cell.model.id;
    return (
      isRunning(answer?.answer ?? null) ||
      (id !== undefined &&
        (this._runs.queued.has(id) || this._runs.phase(id)?.kind === 'sending'))
    );
  }

  private async _stop({ prompt, answer }: ITarget): Promise<void> {
    const cell = answer?.cell ?? prompt?.cell;
    if (cell) {
      await this._runs.stop(cell);
    }
  }

  private _canRevert({ answer }: IAnswerCell): boolean {
    const user = this._app.serviceManager.user.identity;
    return canRevert(
      answer,
      user?.username ?? null,
      this._server.status?.features ?? []
    );
  }

  private async _revert({ prompts, answer }: ITarget): Promise<void> {
    if (answer) {
      await revertRun({
        client: this._client,
        announcer: this._announcer,
        prompts,
        answer,
        trans: this._trans
      });
    }
  }

  private _running(): IAnswerCell | null {
    const prompts = this._tracker.of(this._notebooks.currentWidget?.content);
    if (!prompts) {
      return null;
    }
    const target = this._target({});
    if (target?.answer && isRunning(target.answer.answer)) {
      return target.answer;
    }
    for (const [cell, role] of prompts.cells()) {
      if (role.kind === 'answer' && isRunning(role)) {
        return { cell, answer: role };
      }
    }
    return null;
  }

  private async _reveal(): Promise<void> {
    const notebook = this._notebooks.currentWidget?.content;
    const running = this._running();
    if (!notebook || !running) {
      return;
    }
    const index = notebook.widgets.indexOf(running.cell);
    await notebook.scrollToItem(index, 'smart');
    running.cell.node.scrollIntoView({ block: 'end' });
  }

  private readonly _app: JupyterFrontEnd;
  private readonly _notebooks: INotebookTracker;
  private readonly _tracker: IPromptTracker;
  private readonly _runs: IRunController;
  private readonly _client: IRunClient;
  private readonly _server: IServerModel;
  private readonly _announcer: IAnnouncer | null;
  private readonly _trans: TranslationBundle;
}

namespace Commands {
  export interface IOptions {
    app: JupyterFrontEnd;
    notebooks: INotebookTracker;
    tracker: IPromptTracker;
    runs: IRunController;
    client: IRunClient;
    server: IServerModel;
    announcer: IAnnouncer | null;
    trans: TranslationBundle;
  }

  export interface ITargeted {
    label: string;
    icon: typeof runIcon;
    test: (target: ITarget) => boolean;
    execute: (target: ITarget) => Promise<void>;
  }
}

function targetOf(
  prompts: INotebookPrompts,
  cell: MarkdownCell
): ITarget | null {
  const role = prompts.role(cell);
  switch (role?.kind) {
    case 'prompt':
      return {
        prompts,
        prompt: { cell, prompt: role },
        answer: prompts.answerTo(cell.model.id)
      };
    case 'answer':
      return {
        prompts,
        prompt: prompts.prompt(role.promptId),
        answer: { cell, answer: role }
      };
    default:
      return null;
  }
}

export const commandsPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:plugin',
  description:
    'Adds the commands, their palette entries, keys and toolbar button.',
  autoStart: true,
  requires: [
    INotebookTracker,
    IPromptTracker,
    IRunController,
    IRunClient,
    IServerModel
  ],
  optional: [IAnnouncer, ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    tracker: IPromptTracker,
    runs: IRunController,
    client: IRunClient,
    server: IServerModel,
    announcer: IAnnouncer | null,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    new Commands({
      app,
      notebooks,
      tracker,
      runs,
      client,
      server,
      announcer,
      trans
    }).add();
    for (const command of Object.values(CommandIDs)) {
      palette?.addItem({ command, category: trans.__('AI prompts') });
    }
    const changed = (): void => app.commands.notifyCommandChanged();
    notebooks.activeCellChanged.connect(changed);
    runs.phaseChanged.connect(changed);
  }
};
