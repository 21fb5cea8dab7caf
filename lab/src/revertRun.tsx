/** Takes back what a run changed, after showing what that is. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { cellName } from './cellNames';
import { RunError } from './errors';
import type { IAnswerCell, IAnnouncer, IRunClient } from './tokens';
import type { INotebookPrompts } from './tokens';
import type { IReverted } from './wire';

export interface IRevertOptions {
  readonly client: IRunClient;
  readonly announcer: IAnnouncer | null;
  readonly prompts: INotebookPrompts;
  readonly answer: IAnswerCell;
  readonly trans: TranslationBundle;
}

/** Ask the server what would happen, ask the person, then do it and say so. */
export async function revertRun(options: IRevertOptions): Promise<void> {
  const { client, announcer, answer, trans } = options;
  const { runId } = answer.answer;
  if (runId === null) {
    return;
  }
  try {
    const plan = await client.revert(runId, true);
    if (plan.reverted.length === 0 && plan.kept.length === 0) {
      await tellNothing(trans);
      return;
    }
    if (!(await confirm(plan, options))) {
      return;
    }
    const done = await client.revert(runId, false);
    const message = outcome(done, trans);
    Notification.success(message, { autoClose: 5000 });
    announcer?.say(message);
  } catch (reason) {
    const message =
      reason instanceof RunError
        ? reason.message
        : trans.__('The run could not be reverted.');
    Notification.error(message, { autoClose: 8000 });
    announcer?.say(message);
  }
}

function outcome({ reverted, kept }: IReverted, trans: TranslationBundle) {
  const taken = trans._n(
    '%1 cell was taken back.',
    '%1 cells were taken back.',
    reverted.length
  );
  return kept.length === 0
    ? taken
    : `${taken} ${trans._n('%1 was kept.', '%1 were kept.', kept.length)}`;
}

async function tellNothing(trans: TranslationBundle): Promise<void> {
  await showDialog({
    title: trans.__('Revert run'),
    body: trans.__(
      'There is nothing to take back: the run changed nothing, or it has been reverted already.'
    ),
    buttons: [Dialog.okButton({ label: trans.__('Close') })]
  });
}

async function confirm(
  plan: IReverted,
  { prompts, answer, trans }: IRevertOptions
): Promise<boolean> {
  const nameOf = (cellId: string): string =>
    cellId === answer.cell.model.id
      ? trans.__('the answer (%1)', cellName(prompts.panel, cellId, trans))
      : cellName(prompts.panel, cellId, trans);
  const nothing = plan.reverted.length === 0;
  const { button } = await showDialog({
    title: trans.__('Revert run'),
    body: ReactWidget.create(
      <Plan plan={plan} nameOf={nameOf} trans={trans} />
    ),
    buttons: nothing
      ? [Dialog.okButton({ label: trans.__('Close') })]
      : [
          Dialog.cancelButton(),
          Dialog.warnButton({ label: trans.__('Revert') })
        ],
    defaultButton: 0
  });
  return button.accept && !nothing;
}

interface IPlanProps {
  readonly plan: IReverted;
  readonly nameOf: (cellId: string) => string;
  readonly trans: TranslationBundle;
}

function Plan({ plan, nameOf, trans }: IPlanProps): React.ReactElement {
  return (
    <div className="nbinline-Revert">
      <p>
        {plan.reverted.length > 0
          ? trans.__(
              'What this run changed is taken back in these cells. What people wrote stays.'
            )
          : trans.__('Nothing can be taken back.')}
      </p>
      {plan.reverted.length > 0 && (
        <ul>
          {plan.reverted.map(cellId => (
            <li key={cellId}>{nameOf(cellId)}</li>
          ))}
        </ul>
      )}
      {plan.kept.length > 0 && (
        <>
          <p>{trans.__('These stay as they are:')}</p>
          <ul>
            {plan.kept.map(({ cell_id, reason }, place) => (
              <li key={place}>
                {nameOf(cell_id)}: {reason}
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}
