/** The header of a question: connection, model, Run or Stop, where it stands. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { InputDialog } from '@jupyterlab/apputils';
import type { MarkdownCell } from '@jupyterlab/cells';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import { HTMLSelect, runIcon, stopIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { CellBar, CellBars } from './cellBar';
import { CommandIDs } from './commandIds';
import { chosenConnection, offeredModels, readDefaults } from './connections';
import { promptIcon } from './icons';
import { forEachNotebook, forEachRole } from './notebookPrompts';
import { agentIn, followAgents } from './presence';
import { isRunning } from './promptModel';
import type { IPrompt } from './promptModel';
import { statusText } from './statusText';
import {
  ILiveness,
  IPromptTracker,
  IRunController,
  IServerModel
} from './tokens';
import type { INotebookPrompts } from './tokens';
import { METADATA_KEY } from './wire';
import type { IServerStatus } from './wire';

const OTHER_MODEL = '\u0000other';

class PromptHeader extends CellBar {
  constructor(options: PromptHeader.IOptions) {
    super(options.trans.__('AI prompt'));
    this.addClass('nbinline-PromptHeader');
    this._options = options;
    this.prompt = options.prompt;
  }

  prompt: IPrompt;

  /** Draw again if what is said has changed. */
  refresh(): void {
    const said = JSON.stringify([this._standing().text, this._busy()]);
    if (said !== this._said) {
      this._said = said;
      this.update();
    }
  }

  protected render(): React.ReactElement {
    const { trans, server } = this._options;
    const { tone, text } = this._standing();
    const busy = this._busy();
    const status = server.status;
    this._said = JSON.stringify([text, busy]);
    const chosen = chosenConnection(
      status,
      this.prompt.backend,
      this._defaults()
    );
    const notice = chosen?.connection.notice ?? null;
    const problem = server.problem ?? problemOf(status);
    return (
      <>
        <span className="nbinline-CellBar-title">
          <promptIcon.react tag="span" elementSize="normal" />
          {trans.__('AI prompt')}
        </span>
        {status && this._pickers(status)}
        {problem !== null && (
          <span className="nbinline-CellBar-note" title={problem}>
            {problem}
          </span>
        )}
        {notice && (
          <span className="nbinline-CellBar-note" title={notice}>
            {notice}
          </span>
        )}
        <span className="nbinline-CellBar-status" data-tone={tone} title={text}>
          {text}
        </span>
        {!busy && this._button(CommandIDs.run)}
        {(busy || this._isWaiting()) && this._button(CommandIDs.stop)}
      </>
    );
  }

  private _pickers(status: IServerStatus): React.ReactElement {
    const { trans } = this._options;
    const { backend, model } = this.prompt;
    const defaults = this._defaults();
    const chosen = chosenConnection(status, backend, defaults);
    const usual = chosenConnection(status, null, defaults);
    const usualModel =
      (backend === null ? defaults.model : null) ??
      chosen?.connection.default_model;
    const models = offeredModels(chosen?.connection ?? null, model);
    return (
      <>
        <HTMLSelect
          aria-label={trans.__('Connection')}
          title={trans.__('Connection')}
          value={backend ?? ''}
          onChange={event => this._chooseConnection(event.target.value)}
        >
          <option value="">
            {usual
              ? trans.__('Default: %1', usual.connection.label)
              : trans.__('Default connection')}
          </option>
          {Object.entries(status.connections).map(([id, connection]) => (
            <option key={id} value={id}>
              {connection.configured
                ? connection.label
                : trans.__('%1 (not set up)', connection.label)}
            </option>
          ))}
          {backend !== null && !status.connections[backend] && (
            <option value={backend}>{backend}</option>
          )}
        </HTMLSelect>
        <HTMLSelect
          aria-label={trans.__('Model')}
          title={trans.__('Model')}
          value={model ?? ''}
          onChange={event => void this._chooseModel(event.target.value)}
        >
          <option value="">
            {usualModel
              ? trans.__('Default: %1', usualModel)
              : trans.__('Default model')}
          </option>
          {models.map(({ id, label }) => (
            <option key={id} value={id}>
              {label ?? id}
            </option>
          ))}
          {chosen?.connection.free_models !== false && (
            <option value={OTHER_MODEL}>{trans.__('Another model…')}</option>
          )}
        </HTMLSelect>
      </>
    );
  }

  private _button(command: string): React.ReactElement {
    const { trans, app, cell } = this._options;
    const stops = command === CommandIDs.stop;
    const icon = stops ? stopIcon : runIcon;
    return (
      <button
        className="nbinline-CellBar-button"
        title={
          stops
            ? trans.__('Stop the run of this question')
            : trans.__('Run this question now')
        }
        onClick={() =>
          void app.commands.execute(command, { cellId: cell.model.id })
        }
      >
        <icon.react tag="span" elementSize="small" />
        {stops ? trans.__('Stop') : trans.__('Run')}
      </button>
    );
  }

  /** Whether it waits in this page for cells before it. */
  private _isWaiting(): boolean {
    const { cell, runs } = this._options;
    return runs.phase(cell.model.id)?.kind === 'waiting';
  }

  private _busy(): boolean {
    const { prompts, cell, runs, liveness } = this._options;
    const answer = prompts.answerTo(cell.model.id);
    if (runs.phase(cell.model.id)?.kind === 'sending') {
      return true;
    }
    return (
      answer !== null &&
      isRunning(answer.answer) &&
      !liveness.isDoubtful(answer.cell)
    );
  }

  private _standing(): ReturnType<typeof statusText> {
    const { prompts, cell, runs, liveness, trans } = this._options;
    const answer = prompts.answerTo(cell.model.id);
    return statusText(
      {
        answer: answer?.answer ?? null,
        phase: runs.phase(cell.model.id),
        presence:
          agentIn(prompts.panel, answer?.answer.runId ?? null)?.status ?? null,
        hasText:
          answer !== null && answer.cell.model.sharedModel.getSource() !== '',
        doubtful: answer !== null && liveness.isDoubtful(answer.cell)
      },
      trans
    );
  }

  private _defaults(): ReturnType<typeof readDefaults> {
    const model = this._options.prompts.panel.content.model;
    return readDefaults(model?.getMetadata(METADATA_KEY));
  }

  private _chooseConnection(backend: string): void {
    // A model belongs to its connection.
    this._write({ backend: backend || null, model: null });
  }

  private async _chooseModel(model: string): Promise<void> {
    const { trans } = this._options;
    if (model !== OTHER_MODEL) {
      this._write({ model: model || null });
      return;
    }
    const { value } = await InputDialog.getText({
      title: trans.__('Another model'),
      label: trans.__('Model id, as the connection knows it'),
      text: this.prompt.model ?? ''
    });
    if (value?.trim()) {
      this._write({ model: value.trim() });
    }
  }

  /** Write a person's choice into the question's metadata. */
  private _write(choice: Record<string, string | null>): void {
    const { model } = this._options.cell;
    const metadata: Record<string, unknown> = {
      ...(model.getMetadata(METADATA_KEY) as object)
    };
    for (const [key, value] of Object.entries(choice)) {
      if (value === null) {
        delete metadata[key];
      } else {
        metadata[key] = value;
      }
    }
    model.setMetadata(METADATA_KEY, metadata);
  }

  private readonly _options: PromptHeader.IOptions;
  private _said = '';
}

namespace PromptHeader {
  export interface IOptions {
    app: JupyterFrontEnd;
    cell: MarkdownCell;
    prompt: IPrompt;
    prompts: INotebookPrompts;
    runs: IRunController;
    server: IServerModel;
    liveness: ILiveness;
    trans: TranslationBundle;
  }
}

/** What keeps the server from running questions at all. */
function problemOf(status: IServerStatus | null): string | null {
  const [first] = status && !status.ready ? status.problems : [];
  return typeof first === 'object' ? first.message : (first ?? null);
}

/** Keeps a header on each question. */
class PromptHeaders {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _runs: IRunController,
    private readonly _server: IServerModel,
    private readonly _liveness: ILiveness,
    private readonly _trans: TranslationBundle,
    tracker: IPromptTracker
  ) {
    const refresh = (): void => this._refresh();
    forEachNotebook(tracker, prompts => followAgents(prompts, refresh));
    forEachRole(tracker, (prompts, change) => this._change(prompts, change));
    _runs.phaseChanged.connect(refresh);
    _liveness.changed.connect(refresh);
    _server.changed.connect(() => {
      for (const bar of this._bars.values()) {
        bar.update();
      }
    });
  }

  private _change(
    prompts: INotebookPrompts,
    { cell, role }: Parameters<Parameters<typeof forEachRole>[1]>[1]
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
        cell,
        prompt: role,
        prompts,
        runs: this._runs,
        server: this._server,
        liveness: this._liveness,
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
  requires: [IPromptTracker, IRunController, IServerModel, ILiveness],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    tracker: IPromptTracker,
    runs: IRunController,
    server: IServerModel,
    liveness: ILiveness,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    new PromptHeaders(app, runs, server, liveness, trans, tracker);
  }
};
