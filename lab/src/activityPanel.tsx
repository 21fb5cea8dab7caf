/** The side panel that shows what agents do in the notebooks one may see. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  caretDownIcon,
  caretRightIcon,
  listIcon,
  ReactWidget,
  runIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import * as React from 'react';

import { endedRuns, liveRuns, NOTHING_YET, withPage } from './activity';
import type { IActivity, IWatchedRun } from './activity';
import { showTranscript } from './activityTranscript';
import type { IPause } from './activityWire';
import { ActionButton } from './answerActions';
import { RunError } from './errors';
import { PauseForm } from './pauseDialog';
import { revealCell } from './revealCell';
import { runningText } from './statusText';
import type { IRunClient, IServerModel } from './tokens';
import { Transcript } from './transcriptView';
import { isActive } from './wire';

/** Seconds the server may wait for news. */
const WAIT = 20;

/** Time until the next try after a failure (ms). */
const RETRY = 5000;

export class ActivityPanel extends ReactWidget {
  constructor(private readonly _options: ActivityPanel.IOptions) {
    super();
    this.addClass('nbinline-Activity');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', _options.trans.__('Agent activity'));
    _options.server.changed.connect(this.update, this);
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    // Restored open, it is never told that it is shown.
    requestAnimationFrame(() => this._look());
  }

  protected override onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this._look();
  }

  private _look(): void {
    if (this.isVisible && !this._watching) {
      void this._options.server.refresh();
      void this._watch();
    }
  }

  protected render(): React.ReactElement {
    const { server, trans } = this._options;
    const recording = server.known?.recording;
    const live = liveRuns(this._activity);
    const ended = endedRuns(this._activity);
    return (
      <>
        {this._problem && (
          <p className="nbinline-Activity-problem" role="alert">
            {this._problem}
          </p>
        )}
        {recording?.may_watch && (
          <div className="nbinline-Activity-bar">
            <button
              className="nbinline-CellBar-button"
              onClick={() => void this._pause()}
            >
              {trans.__('Pause AI…')}
            </button>
            <button
              className="nbinline-CellBar-button"
              onClick={() => void showTranscript(null, this._options)}
            >
              {trans.__('Export…')}
            </button>
          </div>
        )}
        {this._activity.pauses.map(pause => (
          <Paused
            key={pause.path}
            pause={pause}
            mayResume={recording?.may_watch === true}
            resume={() => void this._act(c => c.resume(pause.path))}
            trans={trans}
          />
        ))}
        <h3>{trans.__('Running (%1)', live.length)}</h3>
        {live.length === 0 && <p>{trans.__('No agent is at work.')}</p>}
        <ul>
          {/* One array: what is open in a run stays open when the run ends. */}
          {[
            ...live.map(run => this._run(run)),
            <li key="ended">
              <h3>{trans.__('Ended (%1)', ended.length)}</h3>
            </li>,
            ...ended.map(run => this._run(run))
          ]}
        </ul>
        {recording && (
          <p className="nbinline-Activity-notice">{recording.notice}</p>
        )}
      </>
    );
  }

  private _run(run: IWatchedRun): React.ReactElement {
    const { client, trans } = this._options;
    const open = this._open.has(run.runId);
    const stepsId = `nbinline-activity-${run.runId}`;
    return (
      <li key={run.runId} className="nbinline-Activity-run">
        <div className="nbinline-Activity-head">
          <span className="nbinline-Activity-who">
            {run.author?.display_name ?? trans.__('Somebody')}
          </span>
          <span className="nbinline-Activity-where" title={run.path}>
            {PathExt.basename(run.path)}
          </span>
        </div>
        <div className="nbinline-Activity-question" data-open={open}>
          {this._question(run, open)}
        </div>
        <div className="nbinline-Activity-state" title={run.model}>
          {stateText(run, trans)}
          {run.at && ` · ${new Date(run.at).toLocaleTimeString()}`}
        </div>
        <div className="nbinline-Activity-buttons">
          <ActionButton
            icon={open ? caretDownIcon : caretRightIcon}
            label={trans.__('Steps')}
            expanded={open}
            controls={stepsId}
            onClick={() => this._toggle(this._open, run.runId)}
          />
          <ActionButton
            icon={runIcon}
            label={trans.__('Go to')}
            onClick={() => void this._reveal(run, true)}
          />
          {isActive(run.status) ? (
            <>
              <button
                className="nbinline-CellBar-button"
                aria-pressed={this._followed === run.runId}
                onClick={() => this._follow(run)}
              >
                {trans.__('Follow')}
              </button>
              <ActionButton
                icon={stopIcon}
                label={trans.__('Stop')}
                onClick={() => void this._act(c => c.cancel(run.runId))}
              />
            </>
          ) : (
            <ActionButton
              icon={listIcon}
              label={trans.__('Transcript')}
              onClick={() => void showTranscript(run, this._options)}
            />
          )}
        </div>
        {open && (
          <Transcript
            id={stepsId}
            runId={run.runId}
            running={isActive(run.status)}
            client={client}
            cellName={id => this._options.cellName(run.path, id)}
            trans={trans}
          />
        )}
      </li>
    );
  }

  /** What was asked; looked up for runs that go on, and for those somebody looks at. */
  private _question(run: IWatchedRun, open: boolean): string {
    const known = this._questions.get(run.runId);
    if (known !== undefined) {
      return known;
    }
    if (run.promptId !== null && (open || isActive(run.status))) {
      this._questions.set(run.runId, '');
      void this._options.question(run.path, run.promptId).then(text => {
        this._questions.set(run.runId, text);
        this.update();
      });
    }
    return '';
  }

  private _toggle(open: Set<string>, runId: string): void {
    if (!open.delete(runId)) {
      open.add(runId);
    }
    this.update();
  }

  private _follow(run: IWatchedRun): void {
    this._followed = this._followed === run.runId ? null : run.runId;
    if (this._followed !== null) {
      void this._reveal(run, true);
    }
    this.update();
  }

  private async _reveal(run: IWatchedRun, activate: boolean): Promise<void> {
    const { app } = this._options;
    const cells = [run.cellId, run.answerId, run.promptId];
    await revealCell(app, run.path, cells, activate);
  }

  private async _pause(): Promise<void> {
    const { app, trans } = this._options;
    const { button, value } = await showDialog({
      title: trans.__('Pause AI'),
      body: new PauseForm(this._options.currentPath(), trans),
      buttons: [
        Dialog.cancelButton(),
        Dialog.okButton({ label: trans.__('Pause') })
      ]
    });
    if (button.accept && value && !app.shell.isDisposed) {
      await this._act(c => c.pause(value.path, value.reason, value.stop));
    }
  }

  private async _act(
    action: (client: IRunClient) => Promise<void>
  ): Promise<void> {
    try {
      await action(this._options.client);
    } catch (reason) {
      Notification.error(messageOf(reason), { autoClose: 8000 });
    }
  }

  /** Ask for news as long as somebody looks, or follows an agent. */
  private async _watch(): Promise<void> {
    if (this._watching) {
      return;
    }
    this._watching = true;
    while (!this.isDisposed && (this.isVisible || this._followed !== null)) {
      try {
        const { lastSeq } = this._activity;
        const page = await this._options.client.activity(lastSeq, WAIT);
        this._activity = withPage(this._activity, page);
        this._problem = '';
        this._goAlong();
      } catch (reason) {
        this._problem = messageOf(reason);
        this.update();
        await new Promise(resolve => setTimeout(resolve, RETRY));
      }
      this.update();
    }
    this._watching = false;
  }

  /** Show the cell that the agent one follows works on. */
  private _goAlong(): void {
    const run = this._activity.runs.get(this._followed ?? '');
    if (!run) {
      return;
    }
    if (!isActive(run.status)) {
      this._followed = null;
      this._at = null;
      return;
    }
    const at = run.cellId ?? run.answerId;
    if (at !== this._at) {
      this._at = at;
      void this._reveal(run, false);
    }
  }

  private readonly _questions = new Map<string, string>();
  private _activity: IActivity = NOTHING_YET;
  private _watching = false;
  private _problem = '';
  /** Runs whose steps are shown. */
  private readonly _open = new Set<string>();
  /** The run whose agent is followed. */
  private _followed: string | null = null;
  /** The cell that was shown last for it. */
  private _at: string | null = null;
}

export namespace ActivityPanel {
  export interface IOptions {
    readonly app: JupyterFrontEnd;
    readonly client: IRunClient;
    readonly server: IServerModel;
    /** The notebook in front, or empty. */
    readonly currentPath: () => string;
    /** How people call a cell of a notebook that may not be open. */
    readonly cellName: (path: string, cellId: string) => string;
    /** The text of a question; empty if it is not there or may not be read. */
    readonly question: (path: string, cellId: string) => Promise<string>;
    readonly trans: TranslationBundle;
  }
}

interface IPausedProps {
  readonly pause: IPause;
  readonly mayResume: boolean;
  readonly resume: () => void;
  readonly trans: TranslationBundle;
}

function Paused(props: IPausedProps): React.ReactElement {
  const { pause, mayResume, resume, trans } = props;
  return (
    <div className="nbinline-Activity-pause" role="status">
      <span>
        {pause.path === ''
          ? trans.__(
              'AI is paused on this server by %1.',
              pause.by.display_name
            )
          : trans.__(
              'AI is paused in %1 by %2.',
              pause.path,
              pause.by.display_name
            )}
        {pause.reason && ` ${pause.reason}`}
      </span>
      {mayResume && (
        <button className="nbinline-CellBar-button" onClick={resume}>
          {trans.__('Resume')}
        </button>
      )}
    </div>
  );
}

function stateText(run: IWatchedRun, trans: TranslationBundle): string {
  if (run.asks !== null) {
    return trans.__('Waits for approval: %1', run.asks);
  }
  if (run.doing !== null) {
    return run.doing;
  }
  switch (run.status) {
    case 'done':
      return trans.__('Done');
    case 'error':
      return trans.__('Failed');
    case 'cancelled':
      return trans.__('Stopped');
    case 'interrupted':
      return trans.__('Interrupted');
    case 'queued':
      return trans.__('Waits for its turn');
    default:
      return runningText(run.status, trans);
  }
}

function messageOf(reason: unknown): string {
  return reason instanceof RunError || reason instanceof Error
    ? reason.message
    : String(reason);
}
