/** Says the start, end and failure of runs to screen readers; never single words. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { forEachRole } from './notebookPrompts';
import { isRunning } from './promptModel';
import { statusText } from './statusText';
import { IAnnouncer, IPromptTracker } from './tokens';

class Announcer implements IAnnouncer {
  constructor() {
    this._node = document.createElement('div');
    this._node.className = 'nbinline-Announcer';
    this._node.setAttribute('role', 'status');
    this._node.setAttribute('aria-live', 'polite');
    document.body.appendChild(this._node);
  }

  say(message: string): void {
    this._node.textContent = message;
  }

  private readonly _node: HTMLElement;
}

export const announcerPlugin: JupyterFrontEndPlugin<IAnnouncer> = {
  id: '@nbinline/lab:announcer',
  description: 'Says the start, end and failure of runs to screen readers.',
  autoStart: true,
  provides: IAnnouncer,
  requires: [IPromptTracker],
  optional: [ITranslator],
  activate: (
    _: JupyterFrontEnd,
    tracker: IPromptTracker,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    const announcer = new Announcer();
    forEachRole(tracker, (prompts, { role, previous }) => {
      if (!prompts.panel.isVisible || role?.kind !== 'answer') {
        return;
      }
      const before = previous?.kind === 'answer' ? previous : null;
      if (isRunning(role) && !isRunning(before)) {
        announcer.say(trans.__('The AI answer has started.'));
      } else if (!isRunning(role) && isRunning(before)) {
        const { text } = statusText(
          {
            answer: role,
            phase: null,
            presence: null,
            hasText: true,
            doubtful: false
          },
          trans
        );
        announcer.say(trans.__('AI answer: %1', text));
      }
    });
    return announcer;
  }
};
