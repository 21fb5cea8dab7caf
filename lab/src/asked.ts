/** What the asker saw when they pressed Run, for the server's barrier. */
import { sha256 } from '@noble/hashes/sha2';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils';
import type { MarkdownCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import * as Y from 'yjs';

import type { IRunRequest } from './wire';

/** Base64 of bytes. */
export function base64(bytes: Uint8Array): string {
  let binary = '';
  for (const byte of bytes) {
    binary += String.fromCharCode(byte);
  }
  return btoa(binary);
}

/**
 * Hexadecimal SHA-256 of a text in UTF-8.
 *
 * Not the browser's own: pages served over plain HTTP do not have it.
 */
export function sourceDigest(source: string): string {
  return bytesToHex(sha256(utf8ToBytes(source)));
}

/** The request about a question, with what its asker sees at this moment. */
export function asked(panel: NotebookPanel, cell: MarkdownCell): IRunRequest {
  const shared = panel.content.model?.sharedModel;
  const ydoc = (shared as unknown as Partial<IYBacked>)?.ydoc;
  return {
    path: panel.context.localPath,
    cell_id: cell.model.id,
    ...(ydoc ? { state_vector: base64(Y.encodeStateVector(ydoc)) } : {}),
    source_sha256: sourceDigest(cell.model.sharedModel.getSource())
  };
}

/** A shared notebook that is kept in a Y document, as all of JupyterLab's are. */
interface IYBacked {
  readonly ydoc: Y.Doc;
}
