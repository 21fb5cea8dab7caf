/** The dialog for a notebook's tools: which are on, and which calls a person must allow. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { INotebookModel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import { HTMLSelect, ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { CommandIDs } from './commandIds';
import { IServerModel } from './tokens';
import {
  choosable,
  MOST_STEPS,
  PRESET_GROUPS,
  readToolChoices,
  serverMode,
  stricter,
  TOOL_GROUPS,
  withToolChoices
} from './toolApproval';
import type { ApprovalMode, IToolChoices, ServerMode } from './toolApproval';
import { METADATA_KEY } from './wire';
import type { IServerStatus } from './wire';

/** What a person chooses; nothing is written before the dialog is accepted. */
class ToolsForm
  extends ReactWidget
  implements Dialog.IBodyWidget<IToolChoices>
{
  constructor(
    private _choices: IToolChoices,
    private readonly _status: IServerStatus | null,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('nbinline-Tools');
  }

  getValue(): IToolChoices {
    return this._choices;
  }

  protected render(): React.ReactElement {
    const trans = this._trans;
    return (
      <>
        <p>
          {trans.__(
            'A question may use the tools that the notebook names, and those of the groups that are on. Choices are kept in the notebook and hold for everybody. They can be stricter than the server, never laxer.'
          )}
        </p>
        <table>
          <thead>
            <tr>
              <th scope="col">{trans.__('Tools')}</th>
              <th scope="col">{trans.__('On')}</th>
              <th scope="col">{trans.__('Calls')}</th>
            </tr>
          </thead>
          <tbody>
            {['starter', ...TOOL_GROUPS].map(group => this._row(group))}
          </tbody>
        </table>
        <label className="nbinline-Tools-steps">
          {trans.__('Rounds of tool calls in one run')}
          <input
            type="number"
            className="jp-mod-styled"
            min={0}
            max={MOST_STEPS}
            placeholder={trans.__('as the server says')}
            value={this._choices.maxSteps ?? ''}
            onChange={event => this._chooseSteps(event.target.value)}
          />
        </label>
      </>
    );
  }

  private _row(group: string): React.ReactElement {
    const trans = this._trans;
    const name = groupLabel(group, trans);
    return (
      <tr key={group}>
        <th scope="row">{name}</th>
        <td>
          {PRESET_GROUPS.some(each => each === group) && (
            <input
              type="checkbox"
              aria-label={trans.__('%1: on in this notebook', name)}
              checked={this._choices.groups.includes(group)}
              onChange={event => this._switch(group, event.target.checked)}
            />
          )}
        </td>
        <td>{group !== 'starter' && this._mode(group, name)}</td>
      </tr>
    );
  }

  private _mode(group: string, name: string): React.ReactElement {
    const trans = this._trans;
    const told = this._status?.policy?.tool_approval?.[group];
    const server = told === undefined ? 'auto' : serverMode(told);
    const options = choosable(server);
    const chosen = this._choices.approval[group] ?? null;
    if (options.length === 0) {
      return (
        <span className="nbinline-Tools-forced">
          {trans.__('%1 (set by this server)', modeLabel(server, trans))}
        </span>
      );
    }
    // A laxer word than the server's is kept in the notebook, and has no effect.
    const holds = stricter(server, chosen) === chosen && chosen !== server;
    return (
      <HTMLSelect
        aria-label={trans.__('Calls of %1', name)}
        value={holds ? (chosen ?? '') : ''}
        onChange={event =>
          this._chooseMode(group, (event.target.value || null) as ApprovalMode)
        }
      >
        <option value="">
          {told === undefined
            ? trans.__('As the server says')
            : trans.__('Server: %1', modeLabel(server, trans))}
        </option>
        {options.map(mode => (
          <option key={mode} value={mode}>
            {modeLabel(mode, trans)}
          </option>
        ))}
      </HTMLSelect>
    );
  }

  private _switch(group: string, on: boolean): void {
    const wanted = new Set(this._choices.groups);
    if (on) {
      wanted.add(group);
    } else {
      wanted.delete(group);
    }
    this._choose({ groups: PRESET_GROUPS.filter(each => wanted.has(each)) });
  }

  private _chooseMode(group: string, mode: ApprovalMode | null): void {
    const approval = { ...this._choices.approval };
    delete approval[group];
    if (mode !== null) {
      approval[group] = mode;
    }
    this._choose({ approval });
  }

  private _chooseSteps(text: string): void {
    const steps = text === '' ? NaN : Math.round(Number(text));
    this._choose({
      maxSteps: Number.isNaN(steps)
        ? null
        : Math.min(MOST_STEPS, Math.max(0, steps))
    });
  }

  private _choose(choices: Partial<IToolChoices>): void {
    this._choices = { ...this._choices, ...choices };
    this.update();
  }
}

function modeLabel(mode: ServerMode, trans: TranslationBundle): string {
  switch (mode) {
    case 'auto':
      return trans.__('at once');
    case 'own':
      return trans.__('at once if alone, else ask');
    case 'ask':
      return trans.__('ask first');
    case 'off':
      return trans.__('off');
  }
}

function groupLabel(group: string, trans: TranslationBundle): string {
  switch (group) {
    case 'starter':
      return trans.__('Starter (a few of each)');
    case 'notebook':
      return trans.__('Read and edit cells');
    case 'inspect':
      return trans.__('Names, docs and values');
    case 'execution':
      return trans.__('Run cells and code');
    case 'functions':
      return trans.__('Your own functions');
    case 'files':
      return trans.__('Files');
    case 'code':
      return trans.__('Source code');
    case 'saved_notebooks':
      return trans.__('Other notebooks');
    case 'web':
      return trans.__('Web pages');
    case 'shell':
      return trans.__('Shell and processes');
    default:
      return group;
  }
}

/** Ask for the choices and write them in one go. */
async function chooseTools(
  model: INotebookModel,
  server: IServerModel,
  trans: TranslationBundle
): Promise<void> {
  await server.refresh();
  const before = readToolChoices(model.getMetadata(METADATA_KEY));
  const { button, value } = await showDialog({
    title: trans.__('AI tools of this notebook'),
    body: new ToolsForm(before, server.known, trans),
    buttons: [
      Dialog.cancelButton(),
      Dialog.okButton({ label: trans.__('Save') })
    ]
  });
  const changed = JSON.stringify(value) !== JSON.stringify(before);
  if (button.accept && value && changed && !model.isDisposed) {
    model.setMetadata(
      METADATA_KEY,
      withToolChoices(model.getMetadata(METADATA_KEY), value)
    );
  }
}

export const toolsPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:tools',
  description: "Adds the dialog for a notebook's tools.",
  autoStart: true,
  requires: [INotebookTracker, IServerModel],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    server: IServerModel,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    app.commands.addCommand(CommandIDs.openTools, {
      label: trans.__('AI Tools of This Notebook…'),
      isEnabled: () => Boolean(notebooks.currentWidget?.content.model),
      execute: async () => {
        const model = notebooks.currentWidget?.content.model;
        if (model) {
          await chooseTools(model, server, trans);
        }
      },
      describedBy: { args: { type: 'object', properties: {} } }
    });
  }
};
