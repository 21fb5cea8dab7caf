/** The badge of an answer: who asked, which model wrote it, where it stands. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { MarkdownCell } from '@jupyterlab/cells';
import type { TranslationBundle } from '@jupyterlab/translation';
import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import { UUID } from '@lumino/coreutils';
import * as React from 'react';

import { ActionButton, AnswerActions } from './answerActions';
import { readWritten } from './authorship';
import { authorshipText } from './authorshipMarks';
import { CellBar } from './cellBar';
import { cellName } from './cellNames';
import {
  chosenConnection,
  connectionOfModel,
  readDefaults
} from './connections';
import { promptIcon } from './icons';
import { nameOf } from './presence';
import { isRunning } from './promptModel';
import type { IAnswer } from './promptModel';
import { StaleNote } from './staleNote';
import { standingOf } from './standing';
import type { IStatusText } from './statusText';
import type {
  ILiveness,
  INotebookPrompts,
  IRunClient,
  IServerModel,
  IStaleness
} from './tokens';
import { Transcript } from './transcriptView';
import { METADATA_KEY } from './wire';

export class AnswerBadge extends CellBar {
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
        <span className="nbinline-CellBar-title" title={this._authorship()}>
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
        <StaleNote cells={this._changedInputs()} trans={trans} />
        {this._toggle()}
        {this._actions()}
        {failed && (
          <span className="nbinline-CellBar-failure">{standing.text}</span>
        )}
        {this._transcript()}
      </>
    );
  }

  private _actions(): React.ReactElement {
    const { app, cell, liveness, prompts, server, trans } = this._options;
    const { answer } = this;
    return (
      <AnswerActions
        answer={answer}
        doubtful={liveness.isDoubtful(cell)}
        hasText={cell.model.sharedModel.getSource().trim() !== ''}
        hasPrompt={prompts.prompt(answer.promptId) !== null}
        stale={this._changedInputs().length > 0}
        user={app.serviceManager.user.identity?.username ?? null}
        features={server.status?.features ?? []}
        execute={command =>
          void app.commands.execute(command, { cellId: cell.model.id })
        }
        trans={trans}
      />
    );
  }

  /** Opens and closes the transcript. */
  private _toggle(): React.ReactElement | null {
    if (this.answer.runId === null) {
      return null;
    }
    return (
      <ActionButton
        icon={this._open ? caretDownIcon : caretRightIcon}
        label={this._options.trans.__('Steps')}
        expanded={this._open}
        controls={this._transcriptId}
        onClick={() => {
          this._open = !this._open;
          this.update();
        }}
      />
    );
  }

  private _transcript(): React.ReactElement | null {
    const { client, cell, liveness, prompts, trans } = this._options;
    const { runId } = this.answer;
    if (!this._open || runId === null) {
      return null;
    }
    return (
      <Transcript
        key={runId}
        id={this._transcriptId}
        runId={runId}
        running={isRunning(this.answer) && !liveness.isDoubtful(cell)}
        client={client}
        cellName={cellId => cellName(prompts.panel, cellId, trans)}
        trans={trans}
      />
    );
  }

  /** Names of the cells it was made from that have changed since. */
  private _changedInputs(): string[] {
    const { prompts, staleness, trans } = this._options;
    const changed = staleness?.changedCells(prompts, this.answer.runId) ?? [];
    return [...changed].map(id => cellName(prompts.panel, id, trans));
  }

  private _author(): string | null {
    const { app, prompts } = this._options;
    const { author, authorName } = this.answer;
    const self = app.serviceManager.user.identity;
    return author === null
      ? null
      : (nameOf(prompts.panel, author, self) ?? authorName);
  }

  private _authorship(): string | undefined {
    const { cell, trans } = this._options;
    const written = readWritten(cell.model.getMetadata(METADATA_KEY));
    return written ? authorshipText(written, this._author(), trans) : undefined;
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

  private _standing(): IStatusText {
    const { prompts, cell, liveness, trans } = this._options;
    const { answer } = this;
    return standingOf(prompts, { cell, answer }, null, liveness, trans);
  }

  private readonly _options: AnswerBadge.IOptions;
  private readonly _transcriptId = `nbinline-steps-${UUID.uuid4()}`;
  private _said = '';
  /** Whether the transcript is shown. */
  private _open = false;
}

export namespace AnswerBadge {
  export interface IOptions {
    app: JupyterFrontEnd;
    client: IRunClient;
    cell: MarkdownCell;
    answer: IAnswer;
    prompts: INotebookPrompts;
    server: IServerModel;
    liveness: ILiveness;
    staleness: IStaleness | null;
    trans: TranslationBundle;
  }
}
