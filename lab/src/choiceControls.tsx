/** Selects for what a question is asked with; for one question or for the whole notebook. */
import { InputDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { Choices } from './choices';
import {
  chosenConnection,
  chosenModel,
  effortsOf,
  forced,
  offeredModels
} from './connections';
import type { INotebookDefaults } from './connections';
import type { IServerStatus } from './wire';

const OTHER_MODEL = '\u0000other';

/** What is chosen at one place: for a question, or as the notebook's default. */
export interface IChosenHere {
  readonly backend: string | null;
  readonly model: string | null;
  readonly promptMode: string | null;
  readonly reasoningEffort: string | null;
}

const NOTHING: IChosenHere = {
  backend: null,
  model: null,
  promptMode: null,
  reasoningEffort: null
};

export interface IChoiceProps {
  readonly status: IServerStatus;
  readonly chosen: IChosenHere;
  /** What holds where nothing is chosen here; null for the notebook's own row. */
  readonly defaults: INotebookDefaults | null;
  readonly choose: (choices: Choices) => void;
  readonly trans: TranslationBundle;
}

interface IOption {
  readonly value: string;
  readonly label: string;
}

interface IChoiceSelectProps {
  readonly label: string;
  readonly value: string | null;
  /** The option for choosing nothing. */
  readonly usual: string;
  readonly options: readonly IOption[];
  /** What the server prescribes, if it does. */
  readonly forced?: string | null;
  readonly disabled?: string | null;
  readonly choose: (value: string | null) => void;
  readonly trans: TranslationBundle;
}

/** One select; says so if the server leaves no choice. */
export function ChoiceSelect(props: IChoiceSelectProps): React.ReactElement {
  const { label, value, usual, options, choose, trans } = props;
  const known = value === null || options.some(each => each.value === value);
  const prescribed = props.forced ?? null;
  const shown = options.find(each => each.value === prescribed);
  const off = prescribed !== null || Boolean(props.disabled);
  const title =
    prescribed !== null
      ? trans.__('%1: set by this server', label)
      : (props.disabled ?? label);
  return (
    <HTMLSelect
      aria-label={label}
      title={title}
      disabled={off}
      value={prescribed !== null ? '' : (value ?? '')}
      onChange={event => choose(event.target.value || null)}
    >
      {prescribed !== null ? (
        <option value="">
          {trans.__('%1 (set by this server)', shown?.label ?? prescribed)}
        </option>
      ) : (
        <option value="">{usual}</option>
      )}
      {prescribed === null &&
        options.map(each => (
          <option key={each.value} value={each.value}>
            {each.label}
          </option>
        ))}
      {prescribed === null && !known && value !== null && (
        <option value={value}>{trans.__('%1 (not here)', value)}</option>
      )}
    </HTMLSelect>
  );
}

export function ConnectionSelect(props: IChoiceProps): React.ReactElement {
  const { status, chosen, choose, trans } = props;
  const usual = chosenConnection(
    status,
    null,
    props.defaults ?? { backend: null }
  );
  return (
    <ChoiceSelect
      label={trans.__('Connection')}
      value={chosen.backend}
      usual={
        usual
          ? trans.__('Default: %1', usual.connection.label)
          : trans.__('Default connection')
      }
      options={Object.entries(status.connections).map(([id, connection]) => ({
        value: id,
        label: connection.configured
          ? connection.label
          : trans.__('%1 (not set up)', connection.label)
      }))}
      forced={forced(status, 'backend')}
      // A model and its efforts belong to their connection.
      choose={backend =>
        choose({ backend, model: null, reasoningEffort: null })
      }
      trans={trans}
    />
  );
}

export function ModelSelect(props: IChoiceProps): React.ReactElement {
  const { status, chosen, choose, trans } = props;
  const defaults = props.defaults ?? { ...EMPTY, backend: chosen.backend };
  const connection =
    chosenConnection(status, chosen.backend, defaults)?.connection ?? null;
  const usual = chosenModel(status, { ...chosen, model: null }, defaults);
  const options = offeredModels(connection, chosen.model).map(
    ({ id, label }) => ({ value: id, label: label ?? id })
  );
  if (connection?.free_models !== false) {
    options.push({ value: OTHER_MODEL, label: trans.__('Another model…') });
  }
  const pick = async (model: string | null): Promise<void> => {
    const typed =
      model === OTHER_MODEL ? await typedModel(chosen.model, trans) : model;
    if (model !== OTHER_MODEL || typed !== null) {
      choose({ model: typed });
    }
  };
  return (
    <ChoiceSelect
      label={trans.__('Model')}
      value={chosen.model}
      usual={usual ? trans.__('Default: %1', usual) : trans.__('Default model')}
      options={options}
      forced={forced(status, 'model')}
      choose={model => void pick(model)}
      trans={trans}
    />
  );
}

async function typedModel(
  before: string | null,
  trans: TranslationBundle
): Promise<string | null> {
  const { value } = await InputDialog.getText({
    title: trans.__('Another model'),
    label: trans.__('Model id, as the connection knows it'),
    text: before ?? ''
  });
  return value?.trim() || null;
}

export function StyleSelect(props: IChoiceProps): React.ReactElement {
  const { status, chosen, choose, trans } = props;
  const usual = props.defaults?.promptMode ?? null;
  return (
    <ChoiceSelect
      label={trans.__('Style')}
      value={chosen.promptMode}
      usual={
        usual === null
          ? trans.__('Default style')
          : trans.__('Default: %1', styleLabel(usual, trans))
      }
      options={Object.keys(status.styles ?? {}).map(name => ({
        value: name,
        label: styleLabel(name, trans)
      }))}
      forced={forced(status, 'promptMode')}
      choose={promptMode => choose({ promptMode })}
      trans={trans}
    />
  );
}

export function EffortSelect(props: IChoiceProps): React.ReactElement {
  const { status, chosen, choose, trans } = props;
  const defaults = props.defaults ?? { ...EMPTY, backend: chosen.backend };
  const connection = chosenConnection(status, chosen.backend, defaults);
  const model = chosenModel(status, chosen, defaults);
  const efforts = effortsOf(connection?.connection ?? null, model);
  const usual = props.defaults?.reasoningEffort ?? null;
  return (
    <ChoiceSelect
      label={trans.__('Effort')}
      value={chosen.reasoningEffort}
      usual={
        usual !== null && efforts.includes(usual)
          ? trans.__('Default: %1', effortLabel(usual, trans))
          : trans.__('Default effort')
      }
      options={efforts.map(effort => ({
        value: effort,
        label: effortLabel(effort, trans)
      }))}
      forced={forced(status, 'reasoningEffort')}
      disabled={
        efforts.length === 0 && chosen.reasoningEffort === null
          ? trans.__('This model has no choice of effort')
          : null
      }
      choose={reasoningEffort => choose({ reasoningEffort })}
      trans={trans}
    />
  );
}

/** The name of a style as people read it. */
export function styleLabel(name: string, trans: TranslationBundle): string {
  switch (name) {
    case 'compact':
      return trans.__('Compact');
    case 'full':
      return trans.__('Full');
    case 'learning':
      return trans.__('Learning');
    default:
      return name;
  }
}

function effortLabel(effort: string, trans: TranslationBundle): string {
  switch (effort) {
    case 'none':
      return trans.__('No reasoning');
    case 'low':
      return trans.__('Low effort');
    case 'medium':
      return trans.__('Medium effort');
    case 'high':
      return trans.__('High effort');
    case 'xhigh':
      return trans.__('Very high effort');
    case 'max':
      return trans.__('Maximum effort');
    default:
      return effort;
  }
}

const EMPTY: INotebookDefaults = {
  ...NOTHING,
  contextMode: null,
  outputs: null,
  keepAnswers: false
};
