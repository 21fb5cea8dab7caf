/** The header of a question: what it is asked with, Run or Stop, where it stands. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { MarkdownCell } from '@jupyterlab/cells';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  infoIcon,
  runIcon,
  settingsIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import { UUID } from '@lumino/coreutils';
import * as React from 'react';

import { ActionButton } from './answerActions';
import { CellBar } from './cellBar';
import { cellName } from './cellNames';
import { ConnectionSelect, ModelSelect } from './choiceControls';
import type { IChoiceProps } from './choiceControls';
import { choose } from './choices';
import { CommandIDs } from './commandIds';
import { chosenConnection, readDefaults } from './connections';
import { promptIcon } from './icons';
import { isRunning } from './promptModel';
import type { IPrompt } from './promptModel';
import { hasOwnChoices, PromptOptions } from './promptOptions';
import { showRunDetails } from './runDetails';
import { standingOf } from './standing';
import { Starters } from './starters';
import type { IStatusText } from './statusText';
import type {
  ILiveness,
  INotebookPrompts,
  IRunClient,
  IRunController,
  IServerModel
} from './tokens';
import { METADATA_KEY } from './wire';
import type { IServerStatus } from './wire';

export class PromptHeader extends CellBar {
  constructor(options: PromptHeader.IOptions) {
    super(options.trans.__('AI prompt'));
    this.addClass('nbinline-PromptHeader');
    this._options = options;
    this.prompt = options.prompt;
    options.cell.model.sharedModel.changed.connect(this._onSource, this);
  }

  prompt: IPrompt;

  override dispose(): void {
    if (!this.isDisposed) {
      const { model } = this._options.cell;
      model?.sharedModel?.changed.disconnect(this._onSource, this);
      super.dispose();
    }
  }

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
    const { status } = server;
    const standing = this._standing();
    const busy = this._busy();
    this._said = JSON.stringify([standing.text, busy]);
    const choices = status && this._choices(status);
    return (
      <>
        <div className="nbinline-CellBar-line">
          <span className="nbinline-CellBar-title">
            <promptIcon.react tag="span" elementSize="normal" />
            {trans.__('AI prompt')}
          </span>
          {choices && <ConnectionSelect {...choices} />}
          {choices && <ModelSelect {...choices} />}
          {this._notes(status).map(note => (
            <span key={note} className="nbinline-CellBar-note" title={note}>
              {note}
            </span>
          ))}
          {this._status(standing)}
          {!busy && this._button(CommandIDs.run)}
          {(busy || this._isWaiting()) && this._button(CommandIDs.stop)}
          {choices && this._toggle()}
        </div>
        {choices && this._open && (
          <PromptOptions
            {...choices}
            id={this._optionsId}
            prompt={this.prompt}
            attach={() => this._execute(CommandIDs.attachImage)}
          />
        )}
        {this._options.starters() && this._isEmpty() && (
          <Starters accept={text => this._accept(text)} trans={trans} />
        )}
      </>
    );
  }

  /** Where it stands; of a run that built its request also what went along. */
  private _status({ tone, text }: IStatusText): React.ReactElement {
    const { prompts, cell, client, trans } = this._options;
    const runId = prompts.answerTo(cell.model.id)?.answer.runId ?? null;
    return (
      <>
        <span className="nbinline-CellBar-status" data-tone={tone} title={text}>
          {text}
        </span>
        {runId !== null && text !== '' && (
          <ActionButton
            icon={infoIcon}
            label={trans.__('What went along')}
            iconOnly
            onClick={anchor =>
              showRunDetails(anchor, {
                client,
                runId,
                cellName: id => cellName(prompts.panel, id, trans),
                trans
              })
            }
          />
        )}
      </>
    );
  }

  private _choices(status: IServerStatus): IChoiceProps {
    const { cell, trans } = this._options;
    return {
      status,
      chosen: this.prompt,
      defaults: this._defaults(),
      choose: choices => choose(cell.model, choices),
      trans
    };
  }

  /** What people must know before they ask. */
  private _notes(status: IServerStatus | null): string[] {
    const { server } = this._options;
    const chosen = chosenConnection(
      status,
      this.prompt.backend,
      this._defaults()
    );
    const problem = server.problem ?? problemOf(status);
    return [problem, chosen?.connection.notice ?? null].filter(
      (note): note is string => Boolean(note)
    );
  }

  private _toggle(): React.ReactElement {
    const { trans } = this._options;
    const own = hasOwnChoices(this.prompt);
    return (
      <ActionButton
        icon={settingsIcon}
        label={
          own
            ? trans.__('Options of this question (some are set)')
            : trans.__('Options of this question')
        }
        iconOnly
        marked={own}
        expanded={this._open}
        controls={this._optionsId}
        onClick={() => {
          this._open = !this._open;
          this.update();
        }}
      />
    );
  }

  private _button(command: string): React.ReactElement {
    const { trans } = this._options;
    const stops = command === CommandIDs.stop;
    return (
      <ActionButton
        icon={stops ? stopIcon : runIcon}
        label={stops ? trans.__('Stop') : trans.__('Run')}
        title={
          stops
            ? trans.__('Stop the run of this question')
            : trans.__('Run this question now')
        }
        onClick={() => this._execute(command)}
      />
    );
  }

  private _execute(command: string): void {
    const { app, cell } = this._options;
    void app.commands.execute(command, { cellId: cell.model.id });
  }

  /** Put a starter into the empty question, for its person to change. */
  private _accept(text: string): void {
    const { cell, prompts } = this._options;
    const notebook = prompts.panel.content;
    if (this._isEmpty()) {
      cell.model.sharedModel.setSource(text);
    }
    notebook.activeCellIndex = notebook.widgets.indexOf(cell);
    notebook.mode = 'edit';
    void cell.ready.then(() => {
      const { editor } = cell;
      editor?.focus();
      editor?.setCursorPosition(
        editor.getPositionAt(text.length) ?? { line: 0, column: 0 }
      );
    });
  }

  private _isEmpty(): boolean {
    return this._options.cell.model.sharedModel.getSource() === '';
  }

  private _onSource(): void {
    const empty = this._isEmpty();
    if (empty !== this._wasEmpty) {
      this._wasEmpty = empty;
      this.update();
    }
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

  private _standing(): IStatusText {
    const { prompts, cell, runs, liveness, trans } = this._options;
    return standingOf(
      prompts,
      prompts.answerTo(cell.model.id),
      runs.phase(cell.model.id),
      liveness,
      trans
    );
  }

  private _defaults(): ReturnType<typeof readDefaults> {
    const model = this._options.prompts.panel.content.model;
    return readDefaults(model?.getMetadata(METADATA_KEY));
  }

  private readonly _options: PromptHeader.IOptions;
  private readonly _optionsId = `nbinline-options-${UUID.uuid4()}`;
  private _said = '';
  private _open = false;
  private _wasEmpty = false;
}

export namespace PromptHeader {
  export interface IOptions {
    app: JupyterFrontEnd;
    client: IRunClient;
    cell: MarkdownCell;
    prompt: IPrompt;
    prompts: INotebookPrompts;
    runs: IRunController;
    server: IServerModel;
    liveness: ILiveness;
    /** Whether empty questions offer a beginning. */
    starters: () => boolean;
    trans: TranslationBundle;
  }
}

/** What keeps the server from running questions at all. */
function problemOf(status: IServerStatus | null): string | null {
  const [first] = status && !status.ready ? status.problems : [];
  return typeof first === 'object' ? first.message : (first ?? null);
}
