/** What a person can do with an answer, as buttons on its badge. */
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  refreshIcon,
  runIcon,
  settingsIcon,
  stopIcon,
  undoIcon
} from '@jupyterlab/ui-components';
import type { LabIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { CommandIDs } from './commandIds';
import { concernsKeys } from './errors';
import { canContinue, canRevert, hasFailed, isRunning } from './promptModel';
import type { IAnswer } from './promptModel';

export interface IAnswerActionsProps {
  readonly answer: IAnswer;
  /** The document says that it runs, but nobody knows the run. */
  readonly doubtful: boolean;
  readonly hasText: boolean;
  readonly hasPrompt: boolean;
  /** Whether what it was made from has changed since. */
  readonly stale: boolean;
  /** Username of the person who looks. */
  readonly user: string | null;
  /** What the server can do. */
  readonly features: readonly string[];
  readonly execute: (command: string) => void;
  readonly trans: TranslationBundle;
}

export function AnswerActions(
  props: IAnswerActionsProps
): React.ReactElement | null {
  const { answer, doubtful, hasText, hasPrompt, execute, trans } = props;
  const mayRevert = canRevert(answer, props.user, props.features);
  const button = (
    command: string,
    icon: LabIcon,
    label: string
  ): React.ReactElement => (
    <ActionButton icon={icon} label={label} onClick={() => execute(command)} />
  );
  if (isRunning(answer) && !doubtful) {
    return button(CommandIDs.stop, stopIcon, trans.__('Stop'));
  }
  const unfinished = doubtful || canContinue(answer) || hasFailed(answer);
  return (
    <>
      {unfinished &&
        concernsKeys(answer.error?.code) &&
        button(CommandIDs.openKeys, settingsIcon, trans.__('Keys…'))}
      {unfinished &&
        answer.runId !== null &&
        hasText &&
        button(CommandIDs.continueAnswer, runIcon, trans.__('Continue'))}
      {(unfinished || props.stale) &&
        hasPrompt &&
        button(CommandIDs.runAgain, refreshIcon, trans.__('Run again'))}
      {!doubtful && mayRevert && (
        <ActionButton
          icon={undoIcon}
          label={trans.__('Revert run')}
          iconOnly
          onClick={() => execute(CommandIDs.revertRun)}
        />
      )}
    </>
  );
}

interface IActionButtonProps {
  readonly icon: LabIcon;
  readonly label: string;
  /** Says more than the label; by default the label. */
  readonly title?: string;
  readonly iconOnly?: boolean;
  /** Whether something behind it is set. */
  readonly marked?: boolean;
  readonly expanded?: boolean;
  readonly controls?: string;
  readonly onClick: (button: HTMLElement) => void;
}

/** A button of a bar; `expanded` makes it one that opens and closes something. */
export function ActionButton(props: IActionButtonProps): React.ReactElement {
  const { icon, label, iconOnly, expanded, controls, onClick } = props;
  return (
    <button
      className="nbinline-CellBar-button"
      title={props.title ?? label}
      data-marked={props.marked || undefined}
      aria-label={iconOnly ? label : undefined}
      aria-expanded={expanded}
      aria-controls={expanded ? controls : undefined}
      onClick={event => onClick(event.currentTarget)}
    >
      <icon.react tag="span" elementSize="small" />
      {!iconOnly && label}
    </button>
  );
}
