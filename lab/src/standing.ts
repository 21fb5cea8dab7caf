/** Where a question with its answer stands, put together from all who know something. */
import type { TranslationBundle } from '@jupyterlab/translation';

import { agentIn } from './presence';
import { statusText } from './statusText';
import type { IStatusText } from './statusText';
import type {
  IAnswerCell,
  ILiveness,
  INotebookPrompts,
  LocalPhase
} from './tokens';

/**
 * What to show beside a question or its answer.
 *
 * @param answer - The answer, if there is one.
 * @param phase - What only this page knows of the question.
 */
export function standingOf(
  prompts: INotebookPrompts,
  answer: IAnswerCell | null,
  phase: LocalPhase | null,
  liveness: ILiveness,
  trans: TranslationBundle
): IStatusText {
  const agent = agentIn(prompts.panel, answer?.answer.runId ?? null);
  return statusText(
    {
      answer: answer?.answer ?? null,
      phase,
      presence: agent?.status ?? null,
      progress: agent?.progress ?? null,
      hasText:
        answer !== null && answer.cell.model.sharedModel.getSource() !== '',
      doubtful: answer !== null && liveness.isDoubtful(answer.cell)
    },
    trans
  );
}
