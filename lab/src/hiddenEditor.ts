/** Keeps the editor of a rendered cell from highlighting text that nobody sees. */
import {
  defineLanguageFacet,
  Language,
  language as languageFacet
} from '@codemirror/language';
import { Compartment, Prec } from '@codemirror/state';
import type { EditorView } from '@codemirror/view';
import type { MarkdownCell } from '@jupyterlab/cells';
import { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { NodeType, Parser, Tree } from '@lezer/common';
import type { Input, PartialParse } from '@lezer/common';

/** A parser that finds nothing. JupyterLab's own language of plain text parses each word. */
class NothingParser extends Parser {
  createParse(input: Input): PartialParse {
    return {
      parsedPos: input.length,
      stoppedAt: null,
      stopAt: () => undefined,
      advance: () => new Tree(NodeType.none, [], [], input.length)
    };
  }
}

const NOTHING = Prec.highest(
  new Language(defineLanguageFacet(), new NothingParser(), [], 'nothing')
    .extension
);

/** Where the language of an editor can be overruled. */
const overrules = new WeakMap<EditorView, Compartment>();

/**
 * Stop or resume the highlighting of a cell's editor, on this page only.
 *
 * Each word of an answer is put into the hidden editor, too; to parse the Markdown anew
 * would cost more than to render the answer.
 */
export function quietEditor(cell: MarkdownCell, quiet: boolean): void {
  const { editor } = cell;
  if (!(editor instanceof CodeMirrorEditor) || editor.isDisposed) {
    return;
  }
  const view = editor.editor;
  const isQuiet = view.state.facet(languageFacet)?.name === 'nothing';
  if (isQuiet === quiet) {
    return;
  }
  const known = overrules.get(view);
  if (known) {
    view.dispatch({ effects: known.reconfigure(quiet ? NOTHING : []) });
  } else if (quiet) {
    const overrule = new Compartment();
    overrules.set(view, overrule);
    editor.injectExtension(overrule.of(NOTHING));
  }
}
