/** The agent's presence in a shared notebook; shown, never trusted. */
import type { IAwareness } from '@jupyter/ydoc';
import type { NotebookPanel } from '@jupyterlab/notebook';

import type { INotebookPrompts } from './tokens';

/** More of the agent's words than this are not shown in a status line. */
const LONGEST_PROGRESS = 120;

export interface IAgentPresence {
  readonly runId: string;
  readonly name: string;
  readonly color: string | null;
  /** Finer status than the document's, e.g. `preparing`. */
  readonly status: string | null;
  /** What it does right now, in words. */
  readonly progress: string | null;
}

/** Read the agent's entry for a run out of awareness states. */
export function presenceOf(
  states: Iterable<unknown>,
  runId: string
): IAgentPresence | null {
  for (const state of states) {
    if (!isObject(state) || !isObject(state.nbinline)) {
      continue;
    }
    if (state.nbinline.run_id !== runId) {
      continue;
    }
    const user = isObject(state.user) ? state.user : {};
    const name = user.display_name ?? user.name ?? user.username;
    const { color } = user;
    const { status, progress } = state.nbinline;
    return {
      runId,
      name: typeof name === 'string' ? name : '',
      color: typeof color === 'string' && isColor(color) ? color : null,
      status: typeof status === 'string' ? status : null,
      progress:
        typeof progress === 'string' && progress.trim() !== ''
          ? progress.trim().slice(0, LONGEST_PROGRESS)
          : null
    };
  }
  return null;
}

/** The awareness of an open notebook. */
export function awarenessOf(panel: NotebookPanel): IAwareness | null {
  const shared = panel.content.model?.sharedModel as
    { readonly awareness?: IAwareness } | undefined;
  return shared?.awareness ?? null;
}

/** The agent's presence for a run in an open notebook. */
export function agentIn(
  panel: NotebookPanel,
  runId: string | null
): IAgentPresence | null {
  const awareness = awarenessOf(panel);
  return awareness && runId !== null
    ? presenceOf(awareness.getStates().values(), runId)
    : null;
}

/**
 * The name to show for a username: as the people in the notebook call themselves.
 *
 * @returns Null for the random username of a guest who is gone.
 */
export function nameOf(
  panel: NotebookPanel,
  username: string,
  self: { readonly username: string; readonly display_name: string } | null
): string | null {
  if (self?.username === username) {
    return self.display_name || username;
  }
  for (const state of awarenessOf(panel)?.getStates().values() ?? []) {
    const user: unknown = isObject(state) ? state.user : null;
    if (isObject(user) && user.username === username) {
      const name = user.display_name ?? user.name;
      return typeof name === 'string' && name ? name : username;
    }
  }
  return /^[0-9a-f]{32}$/.test(username) ? null : username;
}

/** Call back when the agent came, changed or left in an open notebook. */
export function followAgents(
  prompts: INotebookPrompts,
  callback: () => void
): void {
  const awareness = awarenessOf(prompts.panel);
  if (!awareness) {
    return;
  }
  const agents = new Set<number>();
  const look = (changes: IAwarenessChanges): void => {
    const states = awareness.getStates();
    const came = [...changes.added, ...changes.updated].filter(id => {
      const state: unknown = states.get(id);
      return isObject(state) && isObject(state.nbinline);
    });
    came.forEach(id => agents.add(id));
    const left = changes.removed.filter(id => agents.delete(id));
    if (came.length > 0 || left.length > 0) {
      callback();
    }
  };
  awareness.on('change', look);
  prompts.disposed.connect(() => awareness.off('change', look));
}

interface IAwarenessChanges {
  added: number[];
  updated: number[];
  removed: number[];
}

/** A colour that cannot smuggle anything else into a style. */
function isColor(value: string): boolean {
  return /^(#[0-9a-f]{3,8}|var\(--[a-z0-9-]+\)|(rgb|hsl)a?\([0-9.,%\s/]+\)|[a-z]+)$/i.test(
    value
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
