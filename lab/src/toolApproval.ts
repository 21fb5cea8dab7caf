/** How calls of groups of tools are let through in a notebook, and what the server forces. Pure. */

/** What a notebook may say of a group, from lax to strict. */
export const APPROVAL_MODES = ['auto', 'ask', 'off'] as const;

export type ApprovalMode = (typeof APPROVAL_MODES)[number];

/** The server's word; `own`: at once in one's own notebook with nobody else there, else ask. */
export type ServerMode = ApprovalMode | 'own';

/** Groups of tools, in the order in which people are asked about them. */
export const TOOL_GROUPS = [
  'notebook',
  'inspect',
  'execution',
  'functions',
  'files',
  'code',
  'saved_notebooks',
  'web',
  'shell'
] as const;

/** Preset groups that a notebook can switch on as a whole. */
export const PRESET_GROUPS = [
  'starter',
  'notebook',
  'execution',
  'inspect',
  'files',
  'code',
  'saved_notebooks',
  'web'
] as const;

/** What the server asks rounds of tool calls for where nobody says. */
export const MOST_STEPS = 50;

export interface IToolChoices {
  /** What the notebook says of groups. */
  readonly approval: Readonly<Record<string, ApprovalMode>>;
  /** Preset groups that are switched on. */
  readonly groups: readonly string[];
  /** Rounds of tool calls of one run; null: as the server says. */
  readonly maxSteps: number | null;
}

const STRICTNESS: readonly ServerMode[] = ['auto', 'own', 'ask', 'off'];

/** Read the notebook's choices out of its metadata, whatever is there. */
export function readToolChoices(metadata: unknown): IToolChoices {
  const ours = asObject(metadata);
  const approval: Record<string, ApprovalMode> = {};
  for (const [group, mode] of Object.entries(asObject(ours.toolApproval))) {
    const known = APPROVAL_MODES.find(each => each === mode);
    if (known) {
      approval[group] = known;
    }
  }
  const groups: unknown[] = Array.isArray(ours.toolGroups)
    ? ours.toolGroups
    : [];
  const steps = asObject(ours.defaults).maxToolSteps;
  return {
    approval,
    groups: PRESET_GROUPS.filter(each => groups.includes(each)),
    maxSteps:
      typeof steps === 'number' && Number.isInteger(steps)
        ? Math.min(MOST_STEPS, Math.max(0, steps))
        : null
  };
}

/** The notebook's metadata of ours with other choices; keys nobody here knows stay. */
export function withToolChoices(
  metadata: unknown,
  choices: IToolChoices
): Record<string, unknown> {
  const ours = asObject(metadata);
  const defaults: Record<string, unknown> = { ...asObject(ours.defaults) };
  delete defaults.maxToolSteps;
  if (choices.maxSteps !== null) {
    defaults.maxToolSteps = choices.maxSteps;
  }
  const unknown = Object.entries(asObject(ours.toolApproval)).filter(
    ([group]) => !TOOL_GROUPS.some(each => each === group)
  );
  const changed: Record<string, unknown> = { ...ours };
  set(changed, 'defaults', defaults);
  set(changed, 'toolApproval', {
    ...Object.fromEntries(unknown),
    ...choices.approval
  });
  delete changed.toolGroups;
  if (choices.groups.length > 0) {
    changed.toolGroups = [...choices.groups];
  }
  return changed;
}

/** What holds: the stricter of both words. */
export function stricter(
  server: ServerMode,
  notebook: ApprovalMode | null
): ServerMode {
  return notebook !== null && rank(notebook) > rank(server) ? notebook : server;
}

/** What a notebook can still choose where the server has said its word. */
export function choosable(server: ServerMode): readonly ApprovalMode[] {
  return APPROVAL_MODES.filter(mode => rank(mode) > rank(server));
}

/** A server's word that makes sense; else the one that holds for unknown groups. */
export function serverMode(value: unknown): ServerMode {
  return STRICTNESS.find(each => each === value) ?? 'ask';
}

function rank(mode: ServerMode): number {
  return STRICTNESS.indexOf(mode);
}

function set(
  target: Record<string, unknown>,
  key: string,
  value: Record<string, unknown>
): void {
  if (Object.keys(value).length > 0) {
    target[key] = value;
  } else {
    delete target[key];
  }
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}
