/** Which connection and model a question goes to, and what people must know of it. */
import type { ContextMode, OutputsChoice } from './contextWire';
import { CONTEXT_MODES, OUTPUTS_CHOICES } from './contextWire';
import { modelsOf } from './wire';
import type { IConnection, IModel, IServerStatus } from './wire';

/** The notebook's own defaults: `metadata.nbinlineai.defaults`. */
export interface INotebookDefaults {
  readonly backend: string | null;
  readonly model: string | null;
  readonly promptMode: string | null;
  readonly reasoningEffort: string | null;
  readonly contextMode: ContextMode | null;
  readonly outputs: OutputsChoice | null;
  readonly keepAnswers: boolean;
}

export interface IChosen {
  readonly id: string;
  readonly connection: IConnection;
}

/** Read the notebook's defaults out of its metadata, whatever is there. */
export function readDefaults(metadata: unknown): INotebookDefaults {
  const found = isObject(metadata) ? metadata.defaults : null;
  const defaults = isObject(found) ? found : {};
  return {
    backend: text(defaults.backend),
    model: text(defaults.model),
    promptMode: text(defaults.promptMode),
    reasoningEffort: text(defaults.reasoningEffort),
    contextMode: oneOf(CONTEXT_MODES, defaults.contextMode),
    outputs: oneOf(OUTPUTS_CHOICES, defaults.outputs),
    keepAnswers: defaults.keepAnswers === true
  };
}

/** The connection that holds when a question names `backend`. */
export function chosenConnection(
  status: IServerStatus | null,
  backend: string | null,
  defaults: Pick<INotebookDefaults, 'backend'>
): IChosen | null {
  const id =
    forced(status, 'backend') ??
    backend ??
    defaults.backend ??
    status?.default_connection ??
    null;
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

/** A question's own choices. */
export interface IQuestionChoices {
  readonly backend: string | null;
  readonly model: string | null;
}

/** The model that holds for a question, as the server decides it. */
export function chosenModel(
  status: IServerStatus | null,
  question: IQuestionChoices,
  defaults: INotebookDefaults
): string | null {
  const chosen = chosenConnection(status, question.backend, defaults);
  const belongs = (backend: string | null): boolean =>
    backend === null || backend === chosen?.id;
  return (
    forced(status, 'model') ??
    (belongs(question.backend) ? question.model : null) ??
    (belongs(defaults.backend) ? defaults.model : null) ??
    chosen?.connection.default_model ??
    null
  );
}

/** Reasoning efforts that a model knows, from little to much. */
export function effortsOf(
  connection: IConnection | null,
  model: string | null
): readonly string[] {
  return (
    (model === null ? undefined : connection?.efforts?.[model]) ??
    connection?.other_efforts ??
    []
  );
}

/** Whether a model takes images; null if nobody says. */
export function takesImages(
  connection: IConnection | null,
  model: string | null
): boolean | null {
  return (
    (model === null ? undefined : connection?.images?.[model]) ??
    connection?.other_images ??
    null
  );
}

/** What the server prescribes for a choice, or null. */
export function forced(
  status: IServerStatus | null,
  key: string
): string | null {
  const value = status?.policy?.forced?.[key];
  return value === undefined || value === null ? null : String(value);
}

function oneOf<T extends string>(
  known: readonly T[],
  value: unknown
): T | null {
  return known.find(each => each === value) ?? null;
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value ? value : null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
