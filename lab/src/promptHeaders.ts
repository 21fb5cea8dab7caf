/** Keeps a header on each question. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';

import { CellBars } from './cellBar';
import { forEachNotebook, forEachRole } from './notebookPrompts';
import { followAgents } from './presence';
import { PromptHeader } from './promptHeader';
import { followSettings } from './settingValues';
import {
  ILiveness,
  IPromptTracker,
  IRunClient,
  IRunController,
  IServerModel
} from './tokens';
import type { INotebookPrompts, IRoleChange } from './tokens';

class PromptHeaders {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _client: IRunClient,
    private readonly _runs: IRunController,
    private readonly _server: IServerModel,
    private readonly _liveness: ILiveness,
    private readonly _trans: TranslationBundle,
    tracker: IPromptTracker
  ) {
    const refresh = (): void => this._refresh();
    forEachNotebook(tracker, prompts => {
      followAgents(prompts, refresh);
      this._followDefaults(prompts);
    });
    forEachRole(tracker, (prompts, change) => this._change(prompts, change));
    _runs.phaseChanged.connect(refresh);
    _liveness.changed.connect(refresh);
    _server.changed.connect(() => this.redraw());
  }

  /** Whether empty questions offer a beginning. */
  starters = true;

  redraw(): void {
    for (const bar of this._bars.values()) {
      bar.update();
    }
  }

  /** Headers name what the notebook's defaults are. */
  private _followDefaults(prompts: INotebookPrompts): void {
    const follow = (): void => {
      prompts.panel.content.model?.metadataChanged.connect(() => this.redraw());
    };
    prompts.panel.content.modelChanged.connect(follow);
    follow();
  }

  private _change(
    prompts: INotebookPrompts,
    { cell, role }: IRoleChange
  ): void {
    if (role?.kind !== 'prompt') {
      this._bars.remove(cell);
      this._refresh();
      return;
    }
    const bar = this._bars.get(cell);
    if (bar) {
      bar.prompt = role;
      bar.update();
      return;
    }
    this._bars.add(
      cell,
      new PromptHeader({
        app: this._app,
        client: this._client,
        cell,
        prompt: role,
        prompts,
        runs: this._runs,
        server: this._server,
        liveness: this._liveness,
        starters: () => this.starters,
        trans: this._trans
      })
    );
  }

  private _refresh(): void {
    for (const bar of this._bars.values()) {
      bar.refresh();
    }
  }

  private readonly _bars = new CellBars<PromptHeader>();
}

export const promptHeaderPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:prompt-header',
  description: 'Shows connection, model, Run and Stop above questions.',
  autoStart: true,
  requires: [
    IPromptTracker,
    IRunClient,
    IRunController,
    IServerModel,
    ILiveness
  ],
  optional: [ISettingRegistry, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    tracker: IPromptTracker,
    client: IRunClient,
    runs: IRunController,
    server: IServerModel,
    liveness: ILiveness,
    registry: ISettingRegistry | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    const headers = new PromptHeaders(
      app,
      client,
      runs,
      server,
      liveness,
      trans,
      tracker
    );
    followSettings(registry, settings => {
      headers.starters = settings.get('starters').composite !== false;
      headers.redraw();
    });
  }
};
