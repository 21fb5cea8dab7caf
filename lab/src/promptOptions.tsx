/** What else a question may be asked with: style, effort, Keep answer, an image. */
import { imageIcon, undoIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ActionButton } from './answerActions';
import { ChoiceSelect, EffortSelect, StyleSelect } from './choiceControls';
import type { IChoiceProps } from './choiceControls';
import { forced } from './connections';
import type { IPrompt } from './promptModel';

export interface IPromptOptionsProps extends IChoiceProps {
  readonly id: string;
  readonly prompt: IPrompt;
  readonly attach: () => void;
}

export function PromptOptions(props: IPromptOptionsProps): React.ReactElement {
  const { id, prompt, choose, trans } = props;
  return (
    <div
      id={id}
      className="nbinline-CellBar-line nbinline-PromptOptions"
      role="group"
      aria-label={trans.__('Options of this question')}
    >
      <StyleSelect {...props} />
      <EffortSelect {...props} />
      <KeepSelect {...props} />
      <ActionButton
        icon={imageIcon}
        label={trans.__('Attach image…')}
        onClick={props.attach}
      />
      {overrides(prompt) && (
        <ActionButton
          icon={undoIcon}
          label={trans.__('Use notebook defaults')}
          title={trans.__(
            'Forget connection, model, style and effort of this question'
          )}
          onClick={() =>
            choose({
              backend: null,
              model: null,
              promptMode: null,
              reasoningEffort: null
            })
          }
        />
      )}
    </div>
  );
}

/** Keep answer: as the notebook says, or of its own. */
function KeepSelect(props: IPromptOptionsProps): React.ReactElement {
  const { status, prompt, defaults, choose, trans } = props;
  const value = prompt.keepAnswer;
  const prescribed = forced(status, 'keepAnswers');
  const keep = trans.__('Keep answer');
  const ask = trans.__('Ask again');
  return (
    <ChoiceSelect
      label={trans.__('Keep answer')}
      value={value === null ? null : String(value)}
      usual={trans.__('Default: %1', defaults?.keepAnswers ? keep : ask)}
      options={[
        { value: 'true', label: keep },
        { value: 'false', label: ask }
      ]}
      forced={prescribed}
      choose={chosen =>
        choose({ keepAnswer: chosen === null ? null : chosen === 'true' })
      }
      trans={trans}
    />
  );
}

/** Whether the question differs from the notebook in what it is asked with. */
function overrides(prompt: IPrompt): boolean {
  return (
    prompt.backend !== null ||
    prompt.model !== null ||
    prompt.promptMode !== null ||
    prompt.reasoningEffort !== null
  );
}

/** Whether any of the options behind the toggle is set. */
export function hasOwnChoices(prompt: IPrompt): boolean {
  return overrides(prompt) || prompt.keepAnswer !== null;
}
