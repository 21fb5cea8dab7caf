/** Keeps a badge above each answer. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';

import { AnswerBadge } from './answerBadge';
import { CellBars } from './cellBar';
import { forEachNotebook, forEachRole } from './notebookPrompts';
import { followAgents } from './presence';
import {
  ILiveness,
  IPromptTracker,
  IRunClient,
  IRunController,
  IServerModel,
  IStaleness
} from './tokens';
import type { INotebookPrompts, IRoleChange } from './tokens';

class AnswerBadges {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _client: IRunClient,
    private readonly _server: IServerModel,
    private readonly _liveness: ILiveness,
    private readonly _staleness: IStaleness | null,
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
    _staleness?.changed.connect((_, runId) => {
      for (const badge of this._badges.values()) {
        if (badge.answer.runId === runId) {
          badge.update();
        }
      }
    });
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
        client: this._client,
        cell,
        answer: role,
        prompts,
        server: this._server,
        liveness: this._liveness,
        staleness: this._staleness,
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
  requires: [
    IPromptTracker,
    IRunClient,
    IRunController,
    IServerModel,
    ILiveness
  ],
  optional: [IStaleness, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    tracker: IPromptTracker,
    client: IRunClient,
    _: IRunController,
    server: IServerModel,
    liveness: ILiveness,
    staleness: IStaleness | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    new AnswerBadges(app, client, server, liveness, staleness, trans, tracker);
  }
};
