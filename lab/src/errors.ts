/** A refusal or failure told by the server, with its stable code. */
import type { IWireError } from './wire';

export class RunError extends Error {
  constructor(error: IWireError) {
    super(error.message);
    this.name = 'RunError';
    this.code = error.code;
    this.retryable = error.retryable ?? false;
    this.runId = error.run_id ?? null;
  }

  /** The stable code of the contract, e.g. `run-active`. */
  readonly code: string;

  /** Whether trying the same again may help. */
  readonly retryable: boolean;

  /** With `run-active`: the run that is already on the prompt. */
  readonly runId: string | null;

  /**
   * Read the error out of a response body.
   *
   * @param status - The HTTP status.
   * @param body - The body as text; ours is `{"error": {code, message}}`.
   * @param fallback - What to say if the body is not ours.
   */
  static fromResponse(
    status: number,
    body: string,
    fallback: IWireError
  ): RunError {
    let parsed: unknown = null;
    try {
      parsed = JSON.parse(body);
    } catch {
      return new RunError(fallback);
    }
    if (isRecord(parsed) && isRecord(parsed['error'])) {
      const { code, message, retryable, run_id } = parsed['error'];
      if (typeof code === 'string' && typeof message === 'string') {
        return new RunError({
          code,
          message,
          retryable: retryable === true,
          ...(typeof run_id === 'string' ? { run_id } : {})
        });
      }
    }
    if (isRecord(parsed) && typeof parsed['message'] === 'string') {
      const message = parsed['message'] || fallback.message;
      return new RunError({ ...fallback, message: `${message} (${status})` });
    }
    return new RunError(fallback);
  }
}

/** Whether the dialog for keys is the place to mend this. */
export function concernsKeys(code: string | undefined): boolean {
  return code === 'not-authenticated' || code === 'not-configured';
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
