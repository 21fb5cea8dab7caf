/** The words for where a question stands. */
import type { TranslationBundle } from '@jupyterlab/translation';

import { isRunning } from './promptModel';
import type { IAnswer } from './promptModel';
import type { LocalPhase } from './tokens';

export type StatusTone = 'idle' | 'busy' | 'done' | 'stopped' | 'failed';

export interface IStatusText {
  readonly tone: StatusTone;
  readonly text: string;
}

export interface IStanding {
  readonly answer: IAnswer | null;
  readonly phase: LocalPhase | null;
  /** The finer status that the agent's presence carries. */
  readonly presence: string | null;
  /** What the agent says that it does right now. */
  readonly progress?: string | null;
  /** Whether there is any text; presence may be late by a second. */
  readonly hasText: boolean;
  readonly doubtful: boolean;
}

/** What to show beside a question or answer. */
export function statusText(
  { answer, phase, presence, progress, hasText, doubtful }: IStanding,
  trans: TranslationBundle
): IStatusText {
  if (phase?.kind === 'waiting') {
    return { tone: 'busy', text: trans.__('Waits for the cells before it') };
  }
  if (phase?.kind === 'failed') {
    return { tone: 'failed', text: phase.message };
  }
  if (isRunning(answer) && doubtful) {
    return { tone: 'stopped', text: trans.__('Interrupted?') };
  }
  if (phase?.kind === 'sending' && !isRunning(answer)) {
    return { tone: 'busy', text: trans.__('Sending…') };
  }
  if (answer?.status === 'running' && answer.approvalId !== null) {
    return { tone: 'busy', text: trans.__('Waits for approval') };
  }
  if (answer?.status === 'running' && presence === 'running-tool' && progress) {
    return { tone: 'busy', text: progress };
  }
  return ofAnswer(
    answer,
    presence === 'preparing' && hasText ? null : presence,
    trans
  );
}

function ofAnswer(
  answer: IAnswer | null,
  presence: string | null,
  trans: TranslationBundle
): IStatusText {
  switch (answer?.status) {
    case 'queued':
      return { tone: 'busy', text: trans.__('Waits for its turn') };
    case 'running':
      return { tone: 'busy', text: runningText(presence, trans) };
    case 'done':
      return {
        tone: 'done',
        text: doneText(answer, trans)
      };
    case 'cancelled':
      return { tone: 'stopped', text: trans.__('Stopped') };
    case 'interrupted':
      return { tone: 'stopped', text: trans.__('Interrupted') };
    case 'error':
      return {
        tone: 'failed',
        text: answer.error?.message ?? trans.__('The run failed')
      };
    default:
      return { tone: 'idle', text: '' };
  }
}

function doneText(answer: IAnswer, trans: TranslationBundle): string {
  const said = [trans.__('Done')];
  if (answer.trimmed) {
    said.push(trans.__('context trimmed'));
  }
  if (answer.secretsLeftOut > 0) {
    said.push(trans.__('keys left out: %1', answer.secretsLeftOut));
  }
  return said.join(' · ');
}

/** What a run does, by its finer status. */
export function runningText(
  presence: string | null,
  trans: TranslationBundle
): string {
  switch (presence) {
    case 'preparing':
      return trans.__('Reads the notebook…');
    case 'running-tool':
      return trans.__('Uses a tool…');
    case 'waiting-approval':
      return trans.__('Waits for approval');
    case 'streaming':
      return trans.__('Writes…');
    default:
      return trans.__('Working…');
  }
}
