/** Which connection and model a question goes to, and what people must know of it. */
import { modelsOf } from './wire';
import type { IConnection, IModel, IServerStatus } from './wire';

/** The notebook's own defaults: `metadata.nbinlineai.defaults`. */
export interface INotebookDefaults {
  readonly backend: string | null;
  readonly model: string | null;
}

export interface IChosen {
  readonly id: string;
  readonly connection: IConnection;
}

/** Read the notebook's defaults out of its metadata, whatever is there. */
export function readDefaults(metadata: unknown): INotebookDefaults {
  const defaults = isObject(metadata) ? metadata.defaults : null;
  const { backend, model } = isObject(defaults)
    ? defaults
    : { backend: null, model: null };
  return {
    backend: typeof backend === 'string' && backend ? backend : null,
    model: typeof model === 'string' && model ? model : null
  };
}

/** The connection that holds when a question names `backend`. */
export function chosenConnection(
  status: IServerStatus | null,
  backend: string | null,
  defaults: INotebookDefaults
): IChosen | null {
  const id = backend ?? defaults.backend ?? status?.default_connection ?? null;
  const connection = id === null ? undefined : status?.connections[id];
  return id !== null && connection ? { id, connection } : null;
}

/** The connection an answer came from, as far as one can tell from its model. */
export function connectionOfModel(
  status: IServerStatus | null,
  model: string | null,
  fallback: IChosen | null
): IConnection | null {
  const has = (connection: IConnection): boolean =>
    connection.default_model === model ||
    modelsOf(connection).some(each => each.id === model);
  if (fallback && (model === null || has(fallback.connection))) {
    return fallback.connection;
  }
  const found = Object.values(status?.connections ?? {}).find(has);
  return found ?? fallback?.connection ?? null;
}

/** The models to offer: the connection's own, and the chosen one if it is another. */
export function offeredModels(
  connection: IConnection | null,
  model: string | null
): IModel[] {
  const models = connection ? modelsOf(connection) : [];
  return model !== null && !models.some(each => each.id === model)
    ? [...models, { id: model }]
    : models;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
