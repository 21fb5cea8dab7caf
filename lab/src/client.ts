/** The only file that speaks HTTP. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { IActivityPage, TranscriptFormat } from './activityWire';
import { IRunClient } from './tokens';
import type { IContextReport, IRunInputs, IStyles } from './contextWire';
import type {
  ICodexState,
  IKeys,
  IReverted,
  IRun,
  IRunAccepted,
  IRunEvents,
  IRunRequest,
  IServerStatus,
  IWireError
} from './wire';
import { RunError } from './errors';

const NAMESPACE = 'nbinline';

/** Commands and look-ups over the server's routes. */
export class RunClient implements IRunClient {
  constructor(options: RunClient.IOptions) {
    this._settings = options.serverSettings;
    this._trans = options.trans;
  }

  status(): Promise<IServerStatus> {
    return this._request<IServerStatus>('GET', 'status');
  }

  submit(request: IRunRequest): Promise<IRunAccepted> {
    return this._request<IRunAccepted>('POST', 'runs', request);
  }

  run(runId: string): Promise<IRun> {
    return this._request<IRun>('GET', `runs/${encodeURIComponent(runId)}`);
  }

  async cancel(runId: string): Promise<void> {
    await this._request<unknown>('DELETE', `runs/${encodeURIComponent(runId)}`);
  }

  continueRun(runId: string): Promise<IRunAccepted> {
    return this._request<IRunAccepted>(
      'POST',
      `runs/${encodeURIComponent(runId)}/continue`,
      {}
    );
  }

  events(runId: string, after: number, wait: number): Promise<IRunEvents> {
    const query = URLExt.objectToQueryString({ after, wait });
    return this._request<IRunEvents>(
      'GET',
      `runs/${encodeURIComponent(runId)}/events${query}`
    );
  }

  async approve(
    runId: string,
    approvalId: string,
    answer: { allow: boolean; remember?: boolean }
  ): Promise<void> {
    await this._request<unknown>(
      'POST',
      `runs/${encodeURIComponent(runId)}/approvals/${encodeURIComponent(approvalId)}`,
      answer
    );
  }

  activity(after: number | null, wait: number): Promise<IActivityPage> {
    const query =
      after === null ? '' : URLExt.objectToQueryString({ after, wait });
    return this._request<IActivityPage>('GET', `activity${query}`);
  }

  async pause(path: string, reason: string, stop: boolean): Promise<void> {
    await this._request<unknown>('PUT', 'pauses', { path, reason, stop });
  }

  async resume(path: string): Promise<void> {
    const query = URLExt.objectToQueryString({ path });
    await this._request<unknown>('DELETE', `pauses${query}`);
  }

  transcript(
    runId: string | null,
    format: TranscriptFormat,
    path = ''
  ): Promise<string> {
    const query = URLExt.objectToQueryString({
      format,
      ...(runId === null && path !== '' ? { path } : {})
    });
    return this._text(
      'GET',
      runId === null
        ? `transcripts${query}`
        : `runs/${encodeURIComponent(runId)}/transcript${query}`
    );
  }

  revert(runId: string, dryRun: boolean): Promise<IReverted> {
    return this._request<IReverted>(
      'POST',
      `runs/${encodeURIComponent(runId)}/revert`,
      { dry_run: dryRun }
    );
  }

  async preview(request: IRunRequest): Promise<IContextReport> {
    const answer = await this._request<{ report: IContextReport }>(
      'POST',
      'context-preview',
      request
    );
    return answer.report;
  }

  inputs(runIds: readonly string[]): Promise<IRunInputs> {
    const query = runIds.map(id => `run=${encodeURIComponent(id)}`).join('&');
    return this._request<IRunInputs>('GET', `inputs?${query}`);
  }

  styles(): Promise<IStyles> {
    return this._request<IStyles>('GET', 'settings/styles');
  }

  setStyle(name: string, wording: string): Promise<IStyles> {
    return this._request<IStyles>('PUT', 'settings/styles', { name, wording });
  }

  removeStyle(name: string): Promise<IStyles> {
    const query = URLExt.objectToQueryString({ name });
    return this._request<IStyles>('DELETE', `settings/styles${query}`);
  }

  keys(): Promise<IKeys> {
    return this._request<IKeys>('GET', 'settings/keys');
  }

  async setKey(connection: string, key: string): Promise<void> {
    await this._request<unknown>(
      'PUT',
      `settings/keys/${encodeURIComponent(connection)}`,
      { key }
    );
  }

  async removeKey(connection: string): Promise<void> {
    await this._request<unknown>(
      'DELETE',
      `settings/keys/${encodeURIComponent(connection)}`
    );
  }

  codex(look: boolean): Promise<ICodexState> {
    return this._request<ICodexState>(
      'GET',
      `settings/codex${look ? '?look=1' : ''}`
    );
  }

  async codexSignIn(kind: 'browser' | 'device'): Promise<ICodexState> {
    await this._request<unknown>('POST', 'settings/codex/login', { kind });
    return this.codex(false);
  }

  codexCancel(): Promise<ICodexState> {
    return this._request<ICodexState>('DELETE', 'settings/codex/login');
  }

  codexDisconnect(): Promise<ICodexState> {
    return this._request<ICodexState>('DELETE', 'settings/codex');
  }

  async setDefaultConnection(connection: string): Promise<void> {
    await this._request<unknown>('PUT', 'settings/default-connection', {
      connection
    });
  }

  private async _request<T>(
    method: string,
    route: string,
    body?: object
  ): Promise<T> {
    const text = await this._text(method, route, body);
    return (text ? JSON.parse(text) : {}) as T;
  }

  private async _text(
    method: string,
    route: string,
    body?: object
  ): Promise<string> {
    const url = URLExt.join(this._settings.baseUrl, NAMESPACE, route);
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(
        url,
        {
          method,
          ...(body === undefined ? {} : { body: JSON.stringify(body) })
        },
        this._settings
      );
    } catch {
      throw new RunError({
        code: 'server-unreachable',
        message: this._trans.__('The Jupyter server cannot be reached.'),
        retryable: true
      });
    }
    const text = await response.text();
    if (!response.ok) {
      throw RunError.fromResponse(
        response.status,
        text,
        this._fallback(response.status)
      );
    }
    return text;
  }

  private _fallback(status: number): IWireError {
    const trans = this._trans;
    switch (status) {
      case 403:
        return {
          code: 'forbidden',
          message: trans.__('You may not do this on this server.')
        };
      case 404:
        return {
          code: 'not-found',
          message: trans.__(
            'The server does not know this. Is the nbinline-rtc server extension enabled?'
          )
        };
      default:
        return {
          code: 'server-error',
          message: trans.__('The server answered with an error (%1).', status),
          retryable: status >= 500
        };
    }
  }

  private _settings: ServerConnection.ISettings;
  private _trans: TranslationBundle;
}

export namespace RunClient {
  export interface IOptions {
    serverSettings: ServerConnection.ISettings;
    trans: TranslationBundle;
  }
}

export const clientPlugin: JupyterFrontEndPlugin<IRunClient> = {
  id: '@nbinline/lab:client',
  description: 'Sends commands about runs, connections and keys to the server.',
  autoStart: true,
  provides: IRunClient,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null) =>
    new RunClient({
      serverSettings: app.serviceManager.serverSettings,
      trans: (translator ?? nullTranslator).load('nbinline')
    })
};
