/** The word on an answer's badge that what it was made from has changed. */
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

export interface IStaleNoteProps {
  /** Names of the changed cells, as people call them. */
  readonly cells: readonly string[];
  readonly trans: TranslationBundle;
}

export function StaleNote({
  cells,
  trans
}: IStaleNoteProps): React.ReactElement | null {
  if (cells.length === 0) {
    return null;
  }
  const named = cells.slice(0, 6).join(', ');
  const title =
    cells.length > 6
      ? trans.__('Changed since: %1 and %2 more', named, cells.length - 6)
      : trans.__('Changed since: %1', named);
  return (
    <span className="nbinline-StaleNote" title={title}>
      {trans.__('Inputs changed')}
    </span>
  );
}
