/** Beginnings for an empty question. Showing them writes nothing. */
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

export interface IStarter {
  readonly label: string;
  readonly text: string;
}

/** What is offered; the texts are ordinary questions that people go on to change. */
export function startersFor(trans: TranslationBundle): IStarter[] {
  return [
    {
      label: trans.__('Explain this code'),
      text: trans.__(
        'Explain the code cell above step by step: what goes in, what comes out, and why it is done this way.'
      )
    },
    {
      label: trans.__('Find the mistake'),
      text: trans.__(
        'Look for mistakes in the code above. Say what goes wrong, where, and how to mend it with the smallest change.'
      )
    },
    {
      label: trans.__('Write tests'),
      text: trans.__(
        'Write tests for the functions defined above, edge cases included, in a form that runs in this notebook.'
      )
    },
    {
      label: trans.__('What next?'),
      text: trans.__(
        'What would be a sensible next step in this notebook? Suggest one or two, each with its reason and a short sketch of the code.'
      )
    }
  ];
}

export interface IStartersProps {
  readonly accept: (text: string) => void;
  readonly trans: TranslationBundle;
}

export function Starters({
  accept,
  trans
}: IStartersProps): React.ReactElement {
  return (
    <div
      className="nbinline-CellBar-line nbinline-Starters"
      role="group"
      aria-label={trans.__('Ways to begin')}
    >
      {startersFor(trans).map(({ label, text }) => (
        <button
          key={label}
          className="nbinline-CellBar-button"
          title={text}
          onClick={() => accept(text)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}
