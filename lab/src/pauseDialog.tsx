/** The dialog that asks where AI is to be paused. */
import type { Dialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

export interface IPauseChoice {
  /** Notebook or folder; empty for the whole server. */
  readonly path: string;
  readonly reason: string;
  /** Whether to end the runs there as well. */
  readonly stop: boolean;
}

/** Longest reason that the server takes (characters). */
const LONGEST = 200;

export class PauseForm
  extends ReactWidget
  implements Dialog.IBodyWidget<IPauseChoice>
{
  constructor(
    /** The notebook in front, or empty. */
    private readonly _notebook: string,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('nbinline-Pause');
    this._choice = { path: this._notebook, reason: '', stop: false };
  }

  getValue(): IPauseChoice {
    return this._choice;
  }

  protected render(): React.ReactElement {
    const trans = this._trans;
    const folder = PathExt.dirname(this._notebook);
    const places = [
      ...(this._notebook
        ? [[this._notebook, trans.__('In the notebook %1', this._notebook)]]
        : []),
      ...(folder ? [[folder, trans.__('In the folder %1', folder)]] : []),
      ['', trans.__('On the whole server')]
    ];
    return (
      <>
        <p>
          {trans.__(
            'New questions are refused there, for everybody, until somebody resumes it.'
          )}
        </p>
        {places.map(([path, label]) => (
          <label key={path}>
            <input
              type="radio"
              name="nbinline-pause-place"
              checked={this._choice.path === path}
              onChange={() => this._choose({ path })}
            />
            {label}
          </label>
        ))}
        <label>
          <input
            type="checkbox"
            checked={this._choice.stop}
            onChange={event => this._choose({ stop: event.target.checked })}
          />
          {trans.__('Stop what runs there now')}
        </label>
        <input
          className="jp-mod-styled"
          aria-label={trans.__('Reason')}
          placeholder={trans.__('Reason, shown to those who ask')}
          maxLength={LONGEST}
          value={this._choice.reason}
          onChange={event => this._choose({ reason: event.target.value })}
        />
      </>
    );
  }

  private _choose(choice: Partial<IPauseChoice>): void {
    this._choice = { ...this._choice, ...choice };
    this.update();
  }

  private _choice: IPauseChoice;
}
