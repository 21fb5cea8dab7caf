/**
 * The types of what travels between this page, the server and the shared document
 * (twin of the server's wire module; the contract is docs/protocol.md).
 */
import type { JSONObject } from '@lumino/coreutils';

import type { IContextReport } from './contextWire';

/** The key of everything of ours in cell and notebook metadata. */
export const METADATA_KEY = 'nbinlineai';

/** What the answer cell's metadata may say of its run. */
export type AnswerStatus =
  'queued' | 'running' | 'done' | 'error' | 'cancelled' | 'interrupted';

/** What the server says of a run; finer than what the document carries. */
export type RunStatus =
  | AnswerStatus
  | 'preparing'
  | 'streaming'
  | 'running-tool'
  | 'waiting-approval';

export interface IWireError {
  code: string;
  message: string;
  retryable?: boolean;
  /** With `run-active`: the run that is already on the prompt. */
  run_id?: string;
}

export interface IRunRequest {
  path: string;
  cell_id: string;
  /** Base64 of the Y state vector of what the asker sees. */
  state_vector?: string;
  /** Hexadecimal SHA-256 of the prompt's source in UTF-8. */
  source_sha256?: string;
}

export interface IRunAccepted {
  run_id: string;
  status: RunStatus;
  answer_cell_id: string;
}

export interface IRun {
  run_id: string;
  path: string;
  prompt_cell_id: string;
  answer_cell_id: string | null;
  status: RunStatus;
  /** Whether a task on the server works on it now. */
  live?: boolean;
  /** What the run asked for; the last may still wait for its answer. */
  approvals?: IApproval[];
  /** Whether the person who looks may answer them. */
  may_answer?: boolean;
  connection?: string;
  model?: string;
  error?: IWireError | null;
  /** What its request held; null until it has been built. */
  report?: IContextReport | null;
}

/** One tool call that waits, or waited, for a person's word. */
export interface IApproval {
  approval_id: string;
  tool: string;
  cell_id?: string | null;
  summary?: string | null;
  /** A unified diff of the cell it changes. */
  diff?: string | null;
  /** The code it runs. */
  code?: string | null;
  /** ISO 8601; then it counts as denied. */
  expires_at?: string | null;
  answer?: unknown;
}

/** One entry of a run's journal; the other keys depend on its type. */
export interface IRunEvent {
  seq: number;
  at: string | number;
  type: string;
  [key: string]: unknown;
}

export interface IRunEvents {
  events: IRunEvent[];
  last_seq: number;
  /** Whether older events are no longer there. */
  gap: boolean;
}

/** What a revert takes back, or has taken back. */
export interface IReverted {
  reverted: string[];
  kept: { cell_id: string; reason: string }[];
}

export interface IModel {
  id: string;
  label?: string;
}

export interface IConnection {
  kind: string;
  label: string;
  configured: boolean;
  /** Where the key comes from: the key store, the environment, nowhere. */
  source: string | null;
  models: (string | IModel)[];
  default_model: string | null;
  /** Whether models other than these may be typed. */
  free_models?: boolean;
  /** A sentence people must see beside every answer of this connection. */
  notice?: string | null;
  /** Reasoning efforts by model. */
  efforts?: Record<string, string[]>;
  /** And of models that are typed. */
  other_efforts?: string[];
  /** Whether a model takes images, by model. */
  images?: Record<string, boolean>;
  other_images?: boolean;
}

export interface IProblem {
  code?: string;
  message: string;
}

export interface IServerStatus {
  version: string;
  ready: boolean;
  problems: (string | IProblem)[];
  connections: Record<string, IConnection>;
  default_connection?: string | null;
  /** Wording of the styles an answer may have. */
  styles?: Record<string, string>;
  policy?: {
    /** Choices that this server prescribes, by the keys of the metadata. */
    forced?: Record<string, unknown>;
    /** How calls of tools are let through, by group. */
    tool_approval?: Record<string, string>;
  };
  /** What it keeps of runs, and whether the asking person may watch all of them. */
  recording?: { kept_days: number; notice: string; may_watch: boolean };
  /** What else this server can do, e.g. `revert`. */
  features?: string[];
}

export interface IKeyState {
  configured: boolean;
  /** `saved`, `environment`, `none-needed` or `missing`. */
  source: string | null;
  label?: string;
}

export interface IKeys {
  connections: Record<string, IKeyState>;
  default_connection: string | null;
}

/** A window of a subscription, as its owner is told. */
export interface ICodexWindow {
  used_percent?: number | null;
  window_minutes?: number | null;
  resets_at?: number | null;
}

/** The account behind the Codex connection. */
export interface ICodexState {
  installed: boolean;
  signed_in: boolean;
  login: {
    kind: string;
    url: string;
    code: string;
    /** `waiting`, `done`, `failed` or `cancelled`. */
    state: string;
  } | null;
  models: string[];
  account?: { type?: string; email?: string | null };
  usage?: { primary?: ICodexWindow; secondary?: ICodexWindow } | null;
}

/** `metadata.nbinlineai` of a question. */
export interface IPromptMetadata extends JSONObject {
  isPromptCell: true;
}

const ACTIVE: ReadonlySet<string> = new Set([
  'queued',
  'preparing',
  'running',
  'streaming',
  'running-tool',
  'waiting-approval'
]);

/** Whether a run with this status is still going on. */
export function isActive(status: RunStatus): boolean {
  return ACTIVE.has(status);
}

/** The model ids of a connection, in the order of the server. */
export function modelsOf(connection: IConnection): IModel[] {
  return connection.models.map(model =>
    typeof model === 'string' ? { id: model } : model
  );
}
