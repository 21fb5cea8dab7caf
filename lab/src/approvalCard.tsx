/** The card under an answer whose run waits for the asker's word. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import type { MarkdownCell } from '@jupyterlab/cells';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { User } from '@jupyterlab/services';
import * as React from 'react';

import { diffLines, secondsLeft } from './approval';
import { CellBar, CellBars } from './cellBar';
import { cellName } from './cellNames';
import { RunError } from './errors';
import { forEachRole } from './notebookPrompts';
import { nameOf } from './presence';
import { isRunning } from './promptModel';
import type { IAnswer } from './promptModel';
import { IAnnouncer, ILiveness, IPromptTracker, IRunClient } from './tokens';
import type { INotebookPrompts } from './tokens';
import type { IApproval } from './wire';

class ApprovalCard extends CellBar {
  constructor(private readonly _options: ApprovalCard.IOptions) {
    super(_options.trans.__('The AI asks for approval'));
    this.addClass('nbinline-ApprovalCard');
    this._timer = window.setInterval(() => this.update(), 1000);
    void this._load();
  }

  get approvalId(): string {
    return this._options.approvalId;
  }

  override dispose(): void {
    window.clearInterval(this._timer);
    if (!this.isDisposed && this.node.contains(document.activeElement)) {
      // Whoever has answered with the keyboard stays in the notebook.
      this.parent?.node.focus({ preventScroll: true });
    }
    super.dispose();
  }

  protected render(): React.ReactElement {
    const { trans } = this._options;
    const approval = this._approval;
    return (
      <>
        <span className="nbinline-ApprovalCard-title">{this._title()}</span>
        {approval?.summary && !this._isOfOneCell() && (
          <span className="nbinline-ApprovalCard-summary">
            {approval.summary}
          </span>
        )}
        {approval?.diff && (
          <Diff
            diff={approval.diff}
            cellName={id => cellName(this._options.prompts.panel, id, trans)}
            trans={trans}
          />
        )}
        {approval?.code && (
          <pre
            className="nbinline-ApprovalCard-code"
            tabIndex={0}
            aria-label={trans.__('Code to run')}
          >
            {approval.code}
          </pre>
        )}
        {this._isMine() ? this._buttons() : this._waiting()}
        {this._message && (
          <span className="nbinline-CellBar-failure">{this._message}</span>
        )}
      </>
    );
  }

  private _title(): string {
    const { trans, prompts } = this._options;
    const approval = this._approval;
    if (!approval) {
      return trans.__('The AI asks for approval');
    }
    return approval.cell_id
      ? trans.__(
          'The AI wants to use %1 on %2',
          approval.tool,
          cellName(prompts.panel, approval.cell_id, trans)
        )
      : trans.__('The AI wants to use %1', approval.tool);
  }

  /** Whether title and diff say all there is to say. */
  private _isOfOneCell(): boolean {
    const { cell_id, diff } = this._approval ?? {};
    return Boolean(
      cell_id &&
      diff &&
      !diffLines(diff).lines.some(each => each.kind === 'cell')
    );
  }

  private _buttons(): React.ReactElement {
    const { trans } = this._options;
    const disabled = this._sending || this._isOver();
    const button = (
      label: string,
      allow: boolean,
      remember: boolean
    ): React.ReactElement => (
      <button
        className="nbinline-CellBar-button"
        data-allow={allow && !remember}
        aria-disabled={disabled}
        onClick={() => {
          // A really disabled button would lose the focus.
          if (!disabled) {
            void this._answer(allow, remember);
          }
        }}
      >
        {label}
      </button>
    );
    return (
      <div className="nbinline-ApprovalCard-buttons">
        {button(trans.__('Allow'), true, false)}
        {button(trans.__('Deny'), false, false)}
        {button(trans.__('Always allow in this notebook'), true, true)}
        {this._countdown()}
      </div>
    );
  }

  private _waiting(): React.ReactElement {
    const { trans, prompts, user, author } = this._options;
    const name = author === null ? null : nameOf(prompts.panel, author, user);
    return (
      <div className="nbinline-ApprovalCard-buttons">
        <span>
          {name === null
            ? trans.__('Waiting for the person who asked')
            : trans.__('Waiting for %1', name)}
        </span>
        {this._countdown()}
      </div>
    );
  }

  private _countdown(): React.ReactElement | null {
    const { trans } = this._options;
    const left = this._left();
    if (left === null) {
      return null;
    }
    return (
      <span className="nbinline-ApprovalCard-time">
        {left === 0
          ? trans.__('The time is over: denied')
          : left < 60
            ? trans.__('Denied in %1 s', left)
            : trans.__('Denied in %1 min', Math.ceil(left / 60))}
      </span>
    );
  }

  private _left(): number | null {
    return secondsLeft(this._approval?.expires_at, Date.now());
  }

  private _isOver(): boolean {
    return this._left() === 0;
  }

  /** Whether this person may answer: as the server says, and until then the one who asked. */
  private _isMine(): boolean {
    const { author, user } = this._options;
    return this._mayAnswer ?? (author !== null && user?.username === author);
  }

  private async _load(): Promise<void> {
    const { client, runId, approvalId } = this._options;
    try {
      const run = await client.run(runId);
      this._mayAnswer = run.may_answer ?? null;
      this._approval =
        run.approvals?.find(each => each.approval_id === approvalId) ?? null;
    } catch (reason) {
      this._message = messageOf(reason);
    }
    this.update();
  }

  private async _answer(allow: boolean, remember: boolean): Promise<void> {
    const { client, runId, approvalId, announcer, trans } = this._options;
    this._sending = true;
    this._message = '';
    this.update();
    try {
      await client.approve(runId, approvalId, {
        allow,
        ...(remember ? { remember } : {})
      });
      announcer?.say(allow ? trans.__('Allowed.') : trans.__('Denied.'));
    } catch (reason) {
      this._message = messageOf(reason);
      this._sending = false;
      announcer?.say(this._message);
    }
    this.update();
  }

  private readonly _timer: number;
  private _approval: IApproval | null = null;
  private _mayAnswer: boolean | null = null;
  private _message = '';
  private _sending = false;
}

namespace ApprovalCard {
  export interface IOptions {
    readonly approvalId: string;
    readonly runId: string;
    /** Username of the person who asked. */
    readonly author: string | null;
    readonly user: User.IIdentity | null;
    readonly prompts: INotebookPrompts;
    readonly client: IRunClient;
    readonly announcer: IAnnouncer | null;
    readonly trans: TranslationBundle;
  }
}

interface IDiffProps {
  readonly diff: string;
  readonly cellName: (cellId: string) => string;
  readonly trans: TranslationBundle;
}

function Diff({ diff, cellName, trans }: IDiffProps): React.ReactElement {
  const { lines, more } = diffLines(diff, cellName);
  return (
    <pre
      className="nbinline-ApprovalCard-code"
      tabIndex={0}
      aria-label={trans.__('Changes')}
    >
      {lines.map(({ kind, text, line }, place) => (
        <span key={place} className="nbinline-Diff-line" data-kind={kind}>
          {line === undefined ? `${text}\n` : `${trans.__('Line %1', line)}\n`}
        </span>
      ))}
      {more > 0 && trans._n('%1 more line', '%1 more lines', more)}
    </pre>
  );
}

function messageOf(reason: unknown): string {
  return reason instanceof RunError || reason instanceof Error
    ? reason.message
    : String(reason);
}

/** Keeps a card under each answer that waits for a word. */
class ApprovalCards {
  constructor(private readonly _options: ApprovalCards.IOptions) {
    const { tracker, liveness } = _options;
    forEachRole(tracker, (prompts, { cell, role }) =>
      this._show(prompts, cell, role?.kind === 'answer' ? role : null)
    );
    liveness.changed.connect((_, cell) => {
      const prompts = tracker.ofCell(cell);
      const role = prompts?.role(cell);
      if (prompts && role?.kind === 'answer') {
        this._show(prompts, cell, role);
      }
    });
  }

  private _show(
    prompts: INotebookPrompts,
    cell: MarkdownCell,
    answer: IAnswer | null
  ): void {
    const { liveness, app, client, announcer, trans } = this._options;
    const waits =
      answer !== null && isRunning(answer) && !liveness.isDoubtful(cell);
    const approvalId = waits ? answer.approvalId : null;
    const card = this._cards.get(cell);
    if (card?.approvalId === approvalId) {
      return;
    }
    this._cards.remove(cell);
    if (answer === null || approvalId === null || answer.runId === null) {
      return;
    }
    const user = app.serviceManager.user.identity;
    const shown = new ApprovalCard({
      approvalId,
      runId: answer.runId,
      author: answer.author,
      user,
      prompts,
      client,
      announcer,
      trans
    });
    this._cards.add(cell, shown, 'below');
    if (prompts.panel.isVisible && user?.username === answer.author) {
      announcer?.say(
        trans.__('The AI asks for your approval, below its answer.')
      );
    }
  }

  private readonly _cards = new CellBars<ApprovalCard>();
}

namespace ApprovalCards {
  export interface IOptions {
    readonly app: JupyterFrontEnd;
    readonly tracker: IPromptTracker;
    readonly client: IRunClient;
    readonly liveness: ILiveness;
    readonly announcer: IAnnouncer | null;
    readonly trans: TranslationBundle;
  }
}

export const approvalCardPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:approval-card',
  description: 'Asks the person who has asked to allow or deny a tool call.',
  autoStart: true,
  requires: [IPromptTracker, IRunClient, ILiveness],
  optional: [IAnnouncer, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    tracker: IPromptTracker,
    client: IRunClient,
    liveness: ILiveness,
    announcer: IAnnouncer | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    new ApprovalCards({ app, tracker, client, liveness, announcer, trans });
  }
};
