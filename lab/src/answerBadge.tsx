/** The badge of an answer: who asked, which model wrote it, where it stands. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import type { MarkdownCell } from '@jupyterlab/cells';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  refreshIcon,
  runIcon,
  settingsIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import type { LabIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { CellBar, CellBars } from './cellBar';
import { CommandIDs } from './commandIds';
import {
  chosenConnection,
  connectionOfModel,
  readDefaults
} from './connections';
import { concernsKeys } from './errors';
import { promptIcon } from './icons';
import { forEachNotebook, forEachRole } from './notebookPrompts';
import { agentIn, followAgents, nameOf } from './presence';
import { canContinue, isRunning } from './promptModel';
import type { IAnswer } from './promptModel';
import { statusText } from './statusText';
import {
  ILiveness,
  IPromptTracker,
  IRunController,
  IServerModel
} from './tokens';
import type { INotebookPrompts, IRoleChange } from './tokens';
import { METADATA_KEY } from './wire';

class AnswerBadge extends CellBar {
  constructor(options: AnswerBadge.IOptions) {
    super(options.trans.__('AI answer'));
    this.addClass('nbinline-AnswerBadge');
    this._options = options;
    this.answer = options.answer;
  }

  answer: IAnswer;

  /** Draw again if what is said has changed. */
  refresh(): void {
    if (JSON.stringify(this._standing()) !== this._said) {
      this.update();
    }
  }

  protected render(): React.ReactElement {
    const { trans } = this._options;
    const { answer } = this;
    const standing = this._standing();
    this._said = JSON.stringify(standing);
    const notice = this._notice();
    const author = this._author();
    const failed = standing.tone === 'failed';
    return (
      <>
        <span className="nbinline-CellBar-title">
          <promptIcon.react tag="span" elementSize="normal" />
          {answer.model ?? trans.__('AI answer')}
        </span>
        {author !== null && (
          <span className="nbinline-CellBar-author">
            {trans.__('asked by %1', author)}
          </span>
        )}
        {notice && (
          <span className="nbinline-CellBar-note" title={notice}>
            {notice}
          </span>
        )}
        <span
          className="nbinline-CellBar-status"
          data-tone={standing.tone}
          title={this._when() ?? standing.text}
        >
          {failed ? trans.__('Failed') : standing.text}
        </span>
        {this._actions()}
        {failed && (
          <span className="nbinline-CellBar-failure">{standing.text}</span>
        )}
      </>
    );
  }

  private _actions(): React.ReactElement | null {
    const { trans, cell, liveness, prompts } = this._options;
    const doubtful = liveness.isDoubtful(cell);
    if (isRunning(this.answer) && !doubtful) {
      return this._button(CommandIDs.stop, stopIcon, trans.__('Stop'));
    }
    if (!doubtful && !canContinue(this.answer) && !this._failed()) {
      return null;
    }
    return (
      <>
        {concernsKeys(this.answer.error?.code) &&
          this._button(CommandIDs.openKeys, settingsIcon, trans.__('Keys…'))}
        {this.answer.runId !== null &&
          cell.model.sharedModel.getSource().trim() !== '' &&
          this._button(
            CommandIDs.continueAnswer,
            runIcon,
            trans.__('Continue')
          )}
        {prompts.prompt(this.answer.promptId) !== null &&
          this._button(CommandIDs.runAgain, refreshIcon, trans.__('Run again'))}
      </>
    );
  }

  private _failed(): boolean {
    const { status } = this.answer;
    return (
      status === 'error' || status === 'cancelled' || status === 'interrupted'
    );
  }

  private _button(
    command: string,
    icon: LabIcon,
    label: string
  ): React.ReactElement {
    const { app, cell } = this._options;
    return (
      <button
        className="nbinline-CellBar-button"
        title={label}
        onClick={() =>
          void app.commands.execute(command, { cellId: cell.model.id })
        }
      >
        <icon.react tag="span" elementSize="small" />
        {label}
      </button>
    );
  }

  private _author(): string | null {
    const { app, prompts } = this._options;
    const { author } = this.answer;
    return author === null
      ? null
      : nameOf(prompts.panel, author, app.serviceManager.user.identity);
  }

  private _notice(): string | null {
    const { server, prompts, trans } = this._options;
    const prompt = prompts.prompt(this.answer.promptId)?.prompt ?? null;
    const defaults = readDefaults(
      prompts.panel.content.model?.getMetadata(METADATA_KEY)
    );
    const backend = this.answer.connection ?? prompt?.backend ?? null;
    const chosen = chosenConnection(server.status, backend, defaults);
    const notices = [
      connectionOfModel(server.status, this.answer.model, chosen)?.notice,
      this.answer.note === 'format-raised' &&
        trans.__(
          'This notebook is now saved in format 4.5, so that questions keep their answers.'
        )
    ];
    return notices.filter(Boolean).join(' ') || null;
  }

  private _when(): string | null {
    const ended = this.answer.endedAt ? new Date(this.answer.endedAt) : null;
    return ended === null || Number.isNaN(ended.getTime())
      ? null
      : this._options.trans.__('Ended %1', ended.toLocaleString());
  }

  private _standing(): ReturnType<typeof statusText> {
    const { prompts, cell, liveness, trans } = this._options;
    return statusText(
      {
        answer: this.answer,
        phase: null,
        presence: agentIn(prompts.panel, this.answer.runId)?.status ?? null,
        hasText: cell.model.sharedModel.getSource() !== '',
        doubtful: liveness.isDoubtful(cell)
      },
      trans
    );
  }

  private readonly _options: AnswerBadge.IOptions;
  private _said = '';
}

namespace AnswerBadge {
  export interface IOptions {
    app: JupyterFrontEnd;
    cell: MarkdownCell;
    answer: IAnswer;
    prompts: INotebookPrompts;
    server: IServerModel;
    liveness: ILiveness;
    trans: TranslationBundle;
  }
}

/** Keeps a badge on each answer. */
class AnswerBadges {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _server: IServerModel,
    private readonly _liveness: ILiveness,
    private readonly _trans: TranslationBundle,
    tracker: IPromptTracker
  ) {
    const refresh = (): void => {
      for (const badge of this._badges.values()) {
        badge.refresh();
      }
    };
    forEachNotebook(tracker, prompts => followAgents(prompts, refresh));
    const redraw = (): void => {
      for (const badge of this._badges.values()) {
        badge.update();
      }
    };
    forEachRole(tracker, (prompts, change) => {
      this._change(prompts, change);
      if (change.previous?.kind === 'prompt' && change.role === null) {
        redraw();
      }
    });
    _liveness.changed.connect(redraw);
    _server.changed.connect(redraw);
  }

  private _change(
    prompts: INotebookPrompts,
    { cell, role }: IRoleChange
  ): void {
    if (role?.kind !== 'answer') {
      this._badges.remove(cell);
      return;
    }
    const badge = this._badges.get(cell);
    if (badge) {
      badge.answer = role;
      badge.update();
      return;
    }
    this._badges.add(
      cell,
      new AnswerBadge({
        app: this._app,
        cell,
        answer: role,
        prompts,
        server: this._server,
        liveness: this._liveness,
        trans: this._trans
      })
    );
  }

  private readonly _badges = new CellBars<AnswerBadge>();
}

export const answerBadgePlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:answer-badge',
  description: 'Shows author, model and status above answers.',
  autoStart: true,
  requires: [IPromptTracker, IRunController, IServerModel, ILiveness],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    tracker: IPromptTracker,
    _: IRunController,
    server: IServerModel,
    liveness: ILiveness,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    new AnswerBadges(app, server, liveness, trans, tracker);
  }
};
