/** The types of the server's activity feed (see docs/protocol.md). */
import type { IRun, RunStatus } from './wire';

export interface IPerson {
  readonly username: string;
  readonly display_name: string;
}

/** One thing that happened; what belongs to no run has no `run_id`. */
export interface IActivityEvent {
  readonly seq: number;
  readonly at: string;
  readonly type: string;
  readonly run_id?: string;
  readonly path?: string;
  readonly prompt_cell_id?: string | null;
  readonly answer_cell_id?: string | null;
  readonly status?: RunStatus;
  readonly author?: IPerson;
  readonly connection?: string;
  readonly model?: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** A run as the feed has it when somebody begins to watch. */
export interface IActivityRun extends IRun {
  readonly author?: IPerson;
  readonly created_at?: string;
  readonly ended_at?: string | null;
}

/** AI is paused in a notebook, in a folder, or on the whole server. */
export interface IPause {
  /** Empty for the whole server. */
  readonly path: string;
  readonly notebook: boolean;
  readonly by: IPerson;
  readonly at: string;
  readonly reason: string;
  readonly sentence: string;
}

export interface IActivityPage {
  readonly events: readonly IActivityEvent[];
  readonly last_seq: number;
  /** Whether events in between are gone. */
  readonly gap: boolean;
  /** As they stand, at the beginning and after a gap. */
  readonly runs?: readonly IActivityRun[];
  readonly pauses?: readonly IPause[];
}

export const TRANSCRIPT_FORMATS = ['markdown', 'json', 'csv'] as const;

export type TranscriptFormat = (typeof TRANSCRIPT_FORMATS)[number];
