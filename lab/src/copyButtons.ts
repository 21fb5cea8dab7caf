/** Copy buttons on the code of answers. They are of the page only; the text stays as it is. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Clipboard } from '@jupyterlab/apputils';
import type { MarkdownCell } from '@jupyterlab/cells';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import { checkIcon, copyIcon } from '@jupyterlab/ui-components';

import { forEachRole } from './notebookPrompts';
import { followSettings } from './settingValues';
import { IAnnouncer, IPromptTracker } from './tokens';

/** How long the button says that it has copied (ms). */
const SAID = 1500;

class CopyButtons {
  constructor(
    tracker: IPromptTracker,
    private readonly _announcer: IAnnouncer | null,
    private readonly _trans: TranslationBundle
  ) {
    forEachRole(tracker, (_, { cell, role }) => {
      if (role?.kind === 'answer' && !cell.isDisposed) {
        this._follow(cell);
      } else {
        this._leave(cell);
      }
    });
  }

  get enabled(): boolean {
    return this._enabled;
  }

  set enabled(enabled: boolean) {
    this._enabled = enabled;
    for (const cell of this._observers.keys()) {
      this._decorate(cell);
    }
  }

  /** Blocks come and go while an answer is written, and when JupyterLab renders it. */
  private _follow(cell: MarkdownCell): void {
    if (this._observers.has(cell)) {
      return;
    }
    let frame = 0;
    const observer = new MutationObserver(() => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        this._decorate(cell);
      });
    });
    this._observers.set(cell, observer);
    cell.disposed.connect(() => this._leave(cell));
    void cell.ready.then(() => {
      if (this._observers.get(cell) === observer && !cell.isDisposed) {
        observer.observe(cell.node, { childList: true, subtree: true });
        this._decorate(cell);
      }
    });
  }

  private _leave(cell: MarkdownCell): void {
    this._observers.get(cell)?.disconnect();
    this._observers.delete(cell);
    if (!cell.isDisposed) {
      this._decorate(cell);
    }
  }

  private _decorate(cell: MarkdownCell): void {
    const wanted = this._enabled && this._observers.has(cell);
    const blocks = cell.node.querySelectorAll<HTMLElement>(
      '.jp-RenderedMarkdown pre'
    );
    for (const block of blocks) {
      const button = block.querySelector(':scope > .nbinline-Copy');
      if (!wanted) {
        button?.remove();
      } else if (!button && block.querySelector('code') !== null) {
        block.append(this._button(block));
      }
    }
  }

  private _button(block: HTMLElement): HTMLElement {
    const button = document.createElement('button');
    button.className = 'nbinline-Copy';
    button.type = 'button';
    button.title = this._trans.__('Copy this code');
    button.setAttribute('aria-label', button.title);
    copyIcon.element({ container: button, elementSize: 'small' });
    button.addEventListener('mousedown', event => event.stopPropagation());
    button.addEventListener('dblclick', event => event.stopPropagation());
    button.addEventListener('click', event => {
      event.stopPropagation();
      Clipboard.copyToSystem(block.querySelector('code')?.textContent ?? '');
      checkIcon.element({ container: button, elementSize: 'small' });
      this._announcer?.say(this._trans.__('Copied'));
      setTimeout(
        () => copyIcon.element({ container: button, elementSize: 'small' }),
        SAID
      );
    });
    return button;
  }

  private readonly _observers = new Map<MarkdownCell, MutationObserver>();
  private _enabled = true;
}

export const copyButtonsPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:copy-buttons',
  description: 'Adds copy buttons to the code of answers.',
  autoStart: true,
  requires: [IPromptTracker],
  optional: [IAnnouncer, ISettingRegistry, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    tracker: IPromptTracker,
    announcer: IAnnouncer | null,
    registry: ISettingRegistry | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    const buttons = new CopyButtons(tracker, announcer, trans);
    followSettings(registry, settings => {
      buttons.enabled = settings.get('copyButtons').composite !== false;
    });
  }
};
