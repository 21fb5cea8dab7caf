/** A box beside a button that says what a run's request held. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { HoverBox, ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import { RunError } from './errors';
import { Report } from './runReport';
import type { IRunClient } from './tokens';
import type { IRun } from './wire';

export interface IRunDetailsOptions {
  readonly client: IRunClient;
  readonly runId: string;
  readonly cellName: (id: string) => string;
  readonly trans: TranslationBundle;
}

/** Open the box; a second press on the same button closes it. */
export function showRunDetails(
  anchor: HTMLElement,
  options: IRunDetailsOptions
): void {
  const before = open;
  before?.dispose();
  if (before?.anchor !== anchor) {
    open = new RunDetails(anchor, options);
    Widget.attach(open, document.body);
  }
}

let open: RunDetails | null = null;

class RunDetails extends ReactWidget {
  constructor(anchor: HTMLElement, options: IRunDetailsOptions) {
    super();
    this.anchor = anchor;
    this._options = options;
    this.addClass('nbinline-RunDetails');
    this.node.setAttribute('role', 'dialog');
    this.node.setAttribute('aria-label', options.trans.__('What went along'));
    this.node.tabIndex = -1;
    anchor.setAttribute('aria-expanded', 'true');
    void this._load();
  }

  readonly anchor: HTMLElement;

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    if (open === this) {
      open = null;
    }
    this.anchor.setAttribute('aria-expanded', 'false');
    const hadFocus = this.node.contains(document.activeElement);
    super.dispose();
    if (hadFocus) {
      this.anchor.focus();
    }
  }

  handleEvent(event: Event): void {
    switch (event.type) {
      case 'keydown':
        if ((event as KeyboardEvent).key === 'Escape') {
          event.stopPropagation();
          this.dispose();
        }
        break;
      case 'scroll':
        if (!this._holds(event.target)) {
          this.dispose();
        }
        break;
      case 'mousedown':
        if (!this._holds(event.target)) {
          this.dispose();
        }
        break;
      default:
        this.dispose();
    }
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    for (const type of EVENTS) {
      window.addEventListener(type, this, true);
    }
    this._place();
    this.node.focus({ preventScroll: true });
  }

  protected override onBeforeDetach(msg: Message): void {
    for (const type of EVENTS) {
      window.removeEventListener(type, this, true);
    }
    super.onBeforeDetach(msg);
  }

  protected override onUpdateRequest(msg: Message): void {
    super.onUpdateRequest(msg);
    void this.renderPromise?.then(() => this._place());
  }

  protected render(): React.ReactElement {
    const { cellName, trans } = this._options;
    const run = this._run;
    return (
      <>
        <p className="nbinline-RunDetails-title">
          {trans.__('What went along')}
          {run?.model && ` · ${run.model}`}
        </p>
        {run?.report ? (
          <Report report={run.report} cellName={cellName} trans={trans} />
        ) : (
          <p role="status">{this._message()}</p>
        )}
      </>
    );
  }

  private _message(): string {
    const { trans } = this._options;
    if (this._problem !== null) {
      return this._problem;
    }
    return this._run === null
      ? trans.__('Asking the server…')
      : trans.__('The request has not been put together.');
  }

  private async _load(): Promise<void> {
    try {
      this._run = await this._options.client.run(this._options.runId);
    } catch (reason) {
      this._problem =
        reason instanceof RunError ? reason.message : String(reason);
    }
    if (!this.isDisposed) {
      this.update();
    }
  }

  private _place(): void {
    if (!this.isAttached || !this.anchor.isConnected) {
      return;
    }
    HoverBox.setGeometry({
      anchor: this.anchor.getBoundingClientRect(),
      host: document.body,
      maxHeight: 420,
      minHeight: 80,
      node: this.node,
      privilege: 'below',
      outOfViewDisplay: { left: 'stick-inside', right: 'stick-inside' }
    });
  }

  private _holds(target: EventTarget | null): boolean {
    return (
      target instanceof Node &&
      (this.node.contains(target) || this.anchor.contains(target))
    );
  }

  private readonly _options: IRunDetailsOptions;
  private _run: IRun | null = null;
  private _problem: string | null = null;
}

const EVENTS = ['keydown', 'mousedown', 'scroll', 'resize'];
