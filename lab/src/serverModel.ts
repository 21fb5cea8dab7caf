/** Keeps what the server last said of its connections and models. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { RunError } from './errors';
import { IRunClient, IServerModel } from './tokens';
import type { IServerStatus } from './wire';

class ServerModel implements IServerModel {
  constructor(client: IRunClient) {
    this._client = client;
  }

  get status(): IServerStatus | null {
    if (!this._asked) {
      void this.refresh();
    }
    return this._status;
  }

  get known(): IServerStatus | null {
    return this._status;
  }

  get problem(): string | null {
    return this._problem;
  }

  get changed(): ISignal<IServerModel, void> {
    return this._changed;
  }

  async refresh(): Promise<void> {
    this._asked = true;
    try {
      this._status = await this._client.status();
      this._problem = null;
    } catch (reason) {
      this._problem =
        reason instanceof RunError ? reason.message : String(reason);
    }
    this._changed.emit();
  }

  private readonly _client: IRunClient;
  private readonly _changed = new Signal<IServerModel, void>(this);
  private _asked = false;
  private _status: IServerStatus | null = null;
  private _problem: string | null = null;
}

export const serverPlugin: JupyterFrontEndPlugin<IServerModel> = {
  id: '@nbinline/lab:server',
  description: 'Keeps what the server last said of its connections and models.',
  autoStart: true,
  provides: IServerModel,
  requires: [IRunClient],
  // Asked for at the first use: a page without questions sends nothing.
  activate: (_: JupyterFrontEnd, client: IRunClient) => new ServerModel(client)
};
