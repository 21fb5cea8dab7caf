/**
 * Markdown that the agent has written loads nothing from elsewhere before a person asks for it:
 * neither while it is written nor as JupyterLab renders it afterwards.
 *
 * JupyterLab renders a Markdown cell by putting sanitized HTML into the page, which loads its
 * images at once. So the renderer gets a sanitizer that holds them back.
 */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import type { Cell } from '@jupyterlab/cells';
import { MarkdownCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';

import { forEachNotebook } from './notebookPrompts';
import { isAgentWritten } from './promptModel';
import {
  dress,
  heldBack,
  plainHeading,
  withoutLoadingDrawings
} from './remoteContent';
import type { RemoteKind } from './remoteContent';
import { IPromptTracker } from './tokens';
import { METADATA_KEY } from './wire';

const MIME_TYPE = 'text/markdown';

/** The cells whose text renderers show. */
const cells = new WeakMap<IRenderMime.IRenderer, Cell>();

/** Tell whose text a renderer shows that is not the cell's own. */
export function rendersFor(renderer: IRenderMime.IRenderer, cell: Cell): void {
  cells.set(renderer, cell);
}

/** What people have asked for on this page; another page asks again. */
const allowed = new Set<string>();

class Gate {
  constructor(
    private readonly _factory: IRenderMime.IRendererFactory,
    /** Address below which this server's own files and pages are. */
    private readonly _own: string,
    private readonly _trans: TranslationBundle
  ) {}

  /** A renderer of Markdown that holds back what agents want to load. */
  createRenderer(options: IRenderMime.IRendererOptions): IRenderMime.IRenderer {
    const { sanitizer, markdownParser } = options;
    const guarded = Object.create(sanitizer) as IRenderMime.ISanitizer;
    guarded.sanitize = (dirty, more) => {
      const clean = sanitizer.sanitize(dirty, more);
      const held = isAgents(renderer) ? this._held(clean) : null;
      // It was parsed and written anew; what is shown has always been sanitized last.
      return held === null ? clean : sanitizer.sanitize(held, more);
    };
    const parser = markdownParser
      ? (Object.create(markdownParser) as IRenderMime.IMarkdownParser)
      : null;
    if (parser && markdownParser) {
      parser.render = source =>
        markdownParser.render(
          isAgents(renderer) ? withoutLoadingDrawings(source) : source
        );
    }
    const renderer = this._factory.createRenderer({
      ...options,
      sanitizer: guarded,
      markdownParser: parser
    });
    const render = renderer.renderModel.bind(renderer);
    renderer.renderModel = async model => {
      await render(model);
      if (isAgents(renderer)) {
        dress(renderer.node, this._places, {
          label: (kind, host, alt) => this._label(kind, host, alt),
          asked: url => allowed.add(url)
        });
      }
    };
    return renderer;
  }

  private _held(html: string): string | null {
    return heldBack(html, {
      ...this._places,
      isAllowed: url => allowed.has(url)
    });
  }

  private get _places(): { page: string; own: string } {
    return { page: document.baseURI, own: this._own };
  }

  private _label(kind: RemoteKind, host: string, alt: string): string {
    const trans = this._trans;
    const load =
      kind === 'img'
        ? trans.__('Load image from %1', host)
        : trans.__('Load media from %1', host);
    return alt === '' ? load : `${load}: ${alt}`;
  }
}

function isAgents(renderer: IRenderMime.IRenderer): boolean {
  let cell: unknown = cells.get(renderer);
  for (
    let parent = renderer.parent;
    cell === undefined && parent;
    parent = parent.parent
  ) {
    cell = parent instanceof MarkdownCell ? parent : undefined;
  }
  return (
    cell instanceof MarkdownCell &&
    !cell.isDisposed &&
    isAgentWritten(cell.model.getMetadata(METADATA_KEY))
  );
}

/** Give the table of contents headings that load nothing. */
function guardHeadings(cell: MarkdownCell): void {
  const own = cell.getHeadings.bind(cell);
  cell.getHeadings = async () => harmless(cell, await own());
}

/** Headings of a cell without what they would load if a model wrote them. */
export function harmless(
  cell: Cell,
  headings: Cell.IHeading[]
): Cell.IHeading[] {
  return isAgentWritten(cell.model.getMetadata(METADATA_KEY))
    ? headings.map(heading => {
        const { raw } = heading as { raw?: unknown };
        const { text, level } = heading;
        return typeof raw === 'string'
          ? { ...heading, raw: plainHeading(raw, text, level) }
          : heading;
      })
    : headings;
}

/** Know the renderers of all Markdown cells; they render before they are in their cells. */
function followRenderers(panel: NotebookPanel): void {
  const note = (widgets: readonly Cell[]): void => {
    for (const cell of widgets) {
      if (cell instanceof MarkdownCell) {
        cells.set(cell.renderer, cell);
        guardHeadings(cell);
      }
    }
  };
  const follow = (): void => {
    panel.content.model?.cells.changed.connect((_, change) => {
      const { newIndex, newValues } = change;
      note(panel.content.widgets.slice(newIndex, newIndex + newValues.length));
    });
    note(panel.content.widgets);
  };
  panel.content.modelChanged.connect(follow);
  follow();
}

/** Chromium looks up the hosts of links before anybody presses them. */
function lookNothingUp(): void {
  const meta = document.createElement('meta');
  meta.httpEquiv = 'x-dns-prefetch-control';
  meta.content = 'off';
  document.head.append(meta);
}

export const agentMarkdownPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:agent-markdown',
  description:
    'Loads remote images in what the agent has written only when somebody asks.',
  autoStart: true,
  requires: [IPromptTracker, IRenderMimeRegistry],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    tracker: IPromptTracker,
    rendermime: IRenderMimeRegistry,
    translator: ITranslator | null
  ) => {
    const factory = rendermime.getFactory(MIME_TYPE);
    if (!factory) {
      return;
    }
    const trans = (translator ?? nullTranslator).load('nbinline');
    const gate = new Gate(
      factory,
      app.serviceManager.serverSettings.baseUrl,
      trans
    );
    rendermime.addFactory(
      {
        safe: factory.safe,
        mimeTypes: [MIME_TYPE],
        ...(factory.defaultRank === undefined
          ? {}
          : { defaultRank: factory.defaultRank }),
        createRenderer: options => gate.createRenderer(options)
      },
      rendermime.getRank(MIME_TYPE)
    );
    forEachNotebook(tracker, prompts => followRenderers(prompts.panel));
    lookNothingUp();
  }
};
