/** Renders running answers while they are written, for everybody who looks on. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import type { MarkdownCell } from '@jupyterlab/cells';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITableOfContentsTracker } from '@jupyterlab/toc';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';

import { LiveAnswer } from './liveAnswer';
import { forEachNotebook, forEachRole } from './notebookPrompts';
import { agentIn, followAgents } from './presence';
import { isRunning } from './promptModel';
import { followSettings } from './settingValues';
import { ILiveness, IPromptTracker } from './tokens';
import type { INotebookPrompts, IRoleChange } from './tokens';

class LiveMarkdown {
  constructor(
    tracker: IPromptTracker,
    liveness: ILiveness,
    contents: ITableOfContentsTracker | null,
    trans: TranslationBundle
  ) {
    this._liveness = liveness;
    this._contents = contents;
    this._trans = trans;
    forEachNotebook(tracker, prompts =>
      followAgents(prompts, () => {
        for (const live of this._live.values()) {
          live.refreshAgent();
        }
      })
    );
    forEachRole(tracker, (prompts, change) => this._change(prompts, change));
    liveness.changed.connect((_, cell) => {
      const prompts = tracker.ofCell(cell);
      const role = prompts?.role(cell) ?? null;
      if (prompts && role) {
        this._change(prompts, { cell, role, previous: role });
      }
    });
  }

  enabled = true;

  showAgent = true;

  private _change(
    prompts: INotebookPrompts,
    { cell, role, previous }: IRoleChange
  ): void {
    if (role?.kind !== 'answer') {
      this._live.get(cell)?.dispose();
      this._live.delete(cell);
      return;
    }
    if (!isRunning(role) || this._liveness.isDoubtful(cell)) {
      this._live.get(cell)?.finish();
      return;
    }
    if (!this.enabled) {
      return;
    }
    this._openPrompt(prompts, role.promptId);
    let live = this._live.get(cell);
    if (!live) {
      live = this._create(prompts, cell);
      this._live.set(cell, live);
      cell.disposed.connect(() => {
        this._live.get(cell)?.dispose();
        this._live.delete(cell);
      });
    }
    live.start(previous === null);
  }

  private _create(prompts: INotebookPrompts, cell: MarkdownCell): LiveAnswer {
    return new LiveAnswer({
      cell,
      rendermime: prompts.panel.content.rendermime,
      presence: () => {
        const role = prompts.role(cell);
        return this.showAgent && role?.kind === 'answer'
          ? agentIn(prompts.panel, role.runId)
          : null;
      },
      contents: () => this._contents?.get(prompts.panel) ?? null,
      trans: this._trans
    });
  }

  /** Somebody has run the question: show it rendered unless it is being edited here. */
  private _openPrompt(prompts: INotebookPrompts, promptId: string): void {
    const cell = prompts.prompt(promptId)?.cell;
    if (cell && !cell.rendered && !cell.editor?.hasFocus()) {
      cell.rendered = true;
    }
  }

  private readonly _liveness: ILiveness;
  private readonly _contents: ITableOfContentsTracker | null;
  private readonly _trans: TranslationBundle;
  private readonly _live = new Map<MarkdownCell, LiveAnswer>();
}

export const liveMarkdownPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:live-markdown',
  description: 'Renders running answers while they are written.',
  autoStart: true,
  requires: [IPromptTracker, ILiveness],
  optional: [ISettingRegistry, ITableOfContentsTracker, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    tracker: IPromptTracker,
    liveness: ILiveness,
    registry: ISettingRegistry | null,
    contents: ITableOfContentsTracker | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    const live = new LiveMarkdown(tracker, liveness, contents, trans);
    followSettings(registry, settings => {
      live.enabled = settings.get('liveRendering').composite !== false;
      live.showAgent = settings.get('showAgent').composite !== false;
    });
  }
};
