/** The row above a notebook with questions: its context mode, its defaults, Details. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  caretDownIcon,
  caretRightIcon,
  ReactWidget,
  refreshIcon
} from '@jupyterlab/ui-components';
import { UUID } from '@lumino/coreutils';
import type { Message } from '@lumino/messaging';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import { ActionButton } from './answerActions';
import { cellName } from './cellNames';
import {
  ChoiceSelect,
  ConnectionSelect,
  EffortSelect,
  ModelSelect,
  StyleSelect
} from './choiceControls';
import { chooseDefaults } from './choices';
import { CommandIDs } from './commandIds';
import { forced } from './connections';
import { modeText, outputsText } from './contextText';
import { CONTEXT_MODES, OUTPUTS_CHOICES } from './contextWire';
import type { ContextMode } from './contextWire';
import { promptIcon } from './icons';
import { Report } from './runReport';
import { followSettings } from './settingValues';
import { INotebookContexts, IServerModel } from './tokens';
import type { INotebookContext } from './tokens';
import type { IServerStatus } from './wire';

class NotebookRow extends ReactWidget {
  constructor(options: NotebookRow.IOptions) {
    super();
    this.addClass('nbinline-NotebookRow');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute(
      'aria-label',
      options.trans.__('AI prompts of this notebook')
    );
    this.node.dataset.lmSuppressShortcuts = 'true';
    this._options = options;
    this._size = new ResizeObserver(() => this._fit());
    options.context.changed.connect(this._refresh, this);
    options.context.prompts.changed.connect(this._refresh, this);
    options.server.changed.connect(this._refresh, this);
    this._refresh();
  }

  /** Whether people want to see it at all. */
  set enabled(enabled: boolean) {
    this._enabled = enabled;
    this._refresh();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._size.disconnect();
      const { context, server } = this._options;
      context.changed.disconnect(this._refresh, this);
      context.prompts.changed.disconnect(this._refresh, this);
      server.changed.disconnect(this._refresh, this);
      super.dispose();
    }
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this._refresh();
  }

  protected render(): React.ReactElement {
    const { context, server, trans } = this._options;
    const status = this.isVisible ? server.status : server.known;
    return (
      <div className="nbinline-NotebookRow-content" ref={this._measure}>
        <div className="nbinline-NotebookRow-line">
          <span className="nbinline-CellBar-title">
            <promptIcon.react tag="span" elementSize="normal" />
            {trans.__('AI prompts')}
          </span>
          <label className="nbinline-NotebookRow-field">
            {trans.__('Context')}
            <ModeSelect context={context} status={status} trans={trans} />
          </label>
          <Toggle
            label={trans.__('Details')}
            id={this._detailsId}
            open={context.detailsOpen}
            set={open => (context.detailsOpen = open)}
          />
          <Toggle
            label={trans.__('Defaults')}
            id={this._defaultsId}
            open={this._defaultsOpen}
            set={open => {
              this._defaultsOpen = open;
              this.update();
            }}
          />
          <button
            className="nbinline-CellBar-button"
            title={trans.__(
              'Tools of this notebook, and which calls ask first'
            )}
            onClick={() =>
              void this._options.app.commands.execute(CommandIDs.openTools)
            }
          >
            {trans.__('Tools…')}
          </button>
        </div>
        {this._defaultsOpen && status && (
          <div
            id={this._defaultsId}
            className="nbinline-NotebookRow-section"
            role="group"
            aria-label={trans.__('Defaults of this notebook')}
          >
            {this._defaults(status)}
          </div>
        )}
        {context.detailsOpen && (
          <div
            id={this._detailsId}
            className="nbinline-NotebookRow-section"
            role="group"
            aria-label={trans.__('What the question would send')}
          >
            <Details context={context} trans={trans} />
          </div>
        )}
      </div>
    );
  }

  private _defaults(status: IServerStatus): React.ReactElement {
    const { app, context, trans } = this._options;
    const { defaults } = context;
    const model = context.prompts.panel.content.model;
    const props = {
      status,
      chosen: defaults,
      defaults: null,
      trans,
      choose: (choices: Parameters<typeof chooseDefaults>[1]) =>
        model && chooseDefaults(model, choices)
    };
    const keep = forced(status, 'keepAnswers');
    return (
      <div className="nbinline-NotebookRow-line">
        <ConnectionSelect {...props} />
        <ModelSelect {...props} />
        <StyleSelect {...props} />
        <EffortSelect {...props} />
        <ChoiceSelect
          label={trans.__('Outputs')}
          value={defaults.outputs}
          usual={trans.__('Default: %1', outputsText('summaries', trans))}
          options={OUTPUTS_CHOICES.map(value => ({
            value,
            label: outputsText(value, trans)
          }))}
          forced={forced(status, 'outputs')}
          choose={outputs => props.choose({ outputs })}
          trans={trans}
        />
        <label
          className="nbinline-NotebookRow-field"
          title={
            keep === null
              ? trans.__('Questions with a finished answer are not asked again')
              : trans.__('%1: set by this server', trans.__('Keep answers'))
          }
        >
          <input
            type="checkbox"
            disabled={keep !== null}
            checked={keep === null ? defaults.keepAnswers : keep === 'true'}
            onChange={event =>
              props.choose({ keepAnswers: event.target.checked || null })
            }
          />
          {trans.__('Keep answers')}
        </label>
        <button
          className="nbinline-CellBar-button"
          onClick={() => void app.commands.execute(CommandIDs.openStyles)}
        >
          {trans.__('Styles…')}
        </button>
      </div>
    );
  }

  private _refresh(): void {
    const { context } = this._options;
    const has = this._enabled && context.target !== null;
    if (has === this.isHidden) {
      this.setHidden(!has);
    }
    if (has) {
      this.update();
    }
  }

  /** The content's height decides the row's. */
  private readonly _measure = (content: HTMLElement | null): void => {
    this._size.disconnect();
    this._content = content;
    if (content) {
      this._size.observe(content);
    }
  };

  private _fit(): void {
    const height = this._content?.offsetHeight ?? 0;
    const wanted = `${height}px`;
    if (this.node.style.minHeight !== wanted) {
      this.node.style.minHeight = wanted;
      if (this.parent) {
        MessageLoop.postMessage(this.parent, Widget.Msg.FitRequest);
      }
    }
  }

  private readonly _options: NotebookRow.IOptions;
  private readonly _size: ResizeObserver;
  private readonly _detailsId = `nbinline-details-${UUID.uuid4()}`;
  private readonly _defaultsId = `nbinline-defaults-${UUID.uuid4()}`;
  private _content: HTMLElement | null = null;
  private _enabled = true;
  private _defaultsOpen = false;
}

namespace NotebookRow {
  export interface IOptions {
    app: JupyterFrontEnd;
    context: INotebookContext;
    server: IServerModel;
    trans: TranslationBundle;
  }
}

interface IModeSelectProps {
  readonly context: INotebookContext;
  readonly status: IServerStatus | null;
  readonly trans: TranslationBundle;
}

function ModeSelect({
  context,
  status,
  trans
}: IModeSelectProps): React.ReactElement {
  return (
    <ChoiceSelect
      label={trans.__('Context mode')}
      value={context.mode === 'default' ? null : context.mode}
      usual={modeText('default', trans)}
      options={CONTEXT_MODES.filter(mode => mode !== 'default').map(mode => ({
        value: mode,
        label: modeText(mode, trans)
      }))}
      forced={forced(status, 'contextMode')}
      choose={mode =>
        void context.chooseMode((mode ?? 'default') as ContextMode)
      }
      trans={trans}
    />
  );
}

interface IToggleProps {
  readonly label: string;
  readonly id: string;
  readonly open: boolean;
  readonly set: (open: boolean) => void;
}

function Toggle({ label, id, open, set }: IToggleProps): React.ReactElement {
  return (
    <ActionButton
      icon={open ? caretDownIcon : caretRightIcon}
      label={label}
      expanded={open}
      controls={id}
      onClick={() => set(!open)}
    />
  );
}

interface IDetailsProps {
  readonly context: INotebookContext;
  readonly trans: TranslationBundle;
}

/** The question, what goes along, and when that was looked at. */
function Details({ context, trans }: IDetailsProps): React.ReactElement {
  const { state } = context.preview;
  const { panel } = context.prompts;
  const name = (id: string): string => cellName(panel, id, trans);
  const target =
    context.target === null ? null : context.prompts.prompt(context.target);
  const [first] = (target?.cell.model.sharedModel.getSource() ?? '')
    .trim()
    .split('\n');
  return (
    <>
      <div className="nbinline-NotebookRow-line">
        <span className="nbinline-NotebookRow-target" title={first}>
          {target
            ? trans.__(
                'Question in %1: %2',
                name(target.cell.model.id),
                first || trans.__('(empty)')
              )
            : trans.__('Select a question')}
        </span>
        <span
          className="nbinline-NotebookRow-state"
          role="status"
          data-kind={state.kind}
        >
          {stateText(state, trans)}
        </span>
        <ActionButton
          icon={refreshIcon}
          label={trans.__('Check context')}
          onClick={() => void context.preview.check()}
        />
      </div>
      {state.report && (
        <div data-stale={state.kind !== 'ready'}>
          <Report report={state.report} cellName={name} trans={trans} />
        </div>
      )}
    </>
  );
}

function stateText(
  { kind, at, problem }: INotebookContext['preview']['state'],
  trans: TranslationBundle
): string {
  switch (kind) {
    case 'checking':
      return trans.__('Checking…');
    case 'ready':
      return trans.__('Checked at %1', new Date(at ?? 0).toLocaleTimeString());
    case 'failed':
      return problem ?? trans.__('The context could not be checked');
    case 'idle':
      return trans.__('Write a question to see what goes along');
  }
}

export const notebookRowPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:notebook-row',
  description: 'Shows context mode, defaults and Details above a notebook.',
  autoStart: true,
  requires: [INotebookContexts, IServerModel],
  optional: [ISettingRegistry, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    contexts: INotebookContexts,
    server: IServerModel,
    registry: ISettingRegistry | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    const rows = new Set<NotebookRow>();
    let enabled = true;
    contexts.forEach(context => {
      const row = new NotebookRow({ app, context, server, trans });
      row.enabled = enabled;
      rows.add(row);
      row.disposed.connect(() => rows.delete(row));
      context.prompts.disposed.connect(() => row.dispose());
      context.prompts.panel.contentHeader.addWidget(row);
    });
    followSettings(registry, settings => {
      enabled = settings.get('notebookRow').composite !== false;
      rows.forEach(row => (row.enabled = enabled));
    });
  }
};
