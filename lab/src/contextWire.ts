/** What the server says of a question's context (contract: docs/protocol.md). */

export type ContextMode =
  | 'default'
  | 'full-notebook'
  | 'all-above'
  | 'ten-above'
  | 'ten-above-below'
  | 'custom'
  | 'current-only';

export const CONTEXT_MODES: readonly ContextMode[] = [
  'default',
  'full-notebook',
  'all-above',
  'ten-above',
  'ten-above-below',
  'custom',
  'current-only'
];

export type OutputsChoice = 'none' | 'summaries' | 'full';

export const OUTPUTS_CHOICES: readonly OutputsChoice[] = [
  'none',
  'summaries',
  'full'
];

export interface ISideCounts {
  included: number;
  partial: number;
  omitted: number;
}

export interface ITruncation {
  id: string;
  what: string;
  kept: string;
  sent_characters: number;
  characters: number | null;
}

export interface IAttachedImage {
  name: string;
  media_type: string;
  width: number;
  height: number;
  scaled: boolean;
  problem: string;
}

/** A live value that the question names, if the report has them one by one. */
export interface ISentValue {
  expression: string;
  problem?: string;
}

/**
 * What a request holds. In a run's record lists are cut, and `counts` says how long they
 * were.
 */
export interface IContextReport {
  question: string;
  mode: ContextMode;
  style: string;
  outputs: OutputsChoice;
  selected: string[];
  included: string[];
  partial: string[];
  omitted: string[];
  excluded: string[];
  ineligible: { id: string; reason: string }[];
  history: [string, string][];
  above: ISideCounts;
  below: ISideCounts;
  unit: 'characters' | 'tokens';
  counter: string;
  used: number;
  allowed: number;
  fixed: number;
  truncations: ITruncation[];
  tools_offered: string[];
  tools_disabled: string[];
  tool_problems?: Record<string, string>;
  variables: (string | ISentValue)[];
  images?: IAttachedImage[];
  /** Keys and passwords that were left out, by kind. */
  secrets?: Record<string, number>;
  trimmed: boolean;
  counts?: Record<string, number>;
}

/** Hashes of the cells each run was built from, as far as the server knows them. */
export interface IRunInputs {
  inputs: Record<string, Record<string, string>>;
}

/** A style of answers. */
export interface IStyle {
  wording: string;
  /** One of ours: it can be reworded, not removed. */
  builtin: boolean;
  /** Whether its wording is the account's own. */
  own: boolean;
}

export interface IStyles {
  styles: Record<string, IStyle>;
}
