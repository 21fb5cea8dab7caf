/** Writing a person's choices into metadata; nothing else of ours writes there. */
import type { ICellModel } from '@jupyterlab/cells';
import type { INotebookModel } from '@jupyterlab/notebook';

import { METADATA_KEY } from './wire';

/** A choice by its key; null takes the key away. */
export type Choices = Readonly<Record<string, string | boolean | null>>;

/** Metadata with choices put in or taken away; other keys stay. */
export function withChoices(
  metadata: unknown,
  choices: Choices
): Record<string, unknown> {
  const changed: Record<string, unknown> = { ...asObject(metadata) };
  for (const [key, value] of Object.entries(choices)) {
    if (value === null) {
      delete changed[key];
    } else {
      changed[key] = value;
    }
  }
  return changed;
}

/** The notebook's metadata of ours with other defaults. */
export function withDefaults(
  metadata: unknown,
  choices: Choices
): Record<string, unknown> {
  const ours = asObject(metadata);
  return { ...ours, defaults: withChoices(ours.defaults, choices) };
}

/** Write choices into a cell's metadata of ours. */
export function choose(model: ICellModel, choices: Choices): void {
  model.setMetadata(
    METADATA_KEY,
    withChoices(model.getMetadata(METADATA_KEY), choices)
  );
}

/** Write choices into the notebook's defaults. */
export function chooseDefaults(model: INotebookModel, choices: Choices): void {
  model.setMetadata(
    METADATA_KEY,
    withDefaults(model.getMetadata(METADATA_KEY), choices)
  );
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}
