/** What single lines of Markdown begin, go on with or end. Pure. */

export const MARKER = /^([ \t]*)([-+*]|\d{1,9}[.)])(?=[ \t]|\r?$)([ \t]*)/;
/** A line that is not complete yet and may still turn into a list item. */
export const MARKER_BEGUN = /^(?:[-+*]|\d{1,9}[.)]?)\r?$/;
export const FENCE = /^(`{3,}(?=[^`]*$)|~{3,})[ \t]*([^\s`]*)/;
export const DELIMITER_ROW =
  /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\r?$/;
export const BLANK = /^[ \t\r]*$/;
export const TAG = /<(\/?)([a-zA-Z][a-zA-Z0-9-]*)(?:\s[^<>]*)?>/g;
export const VOID = new Set([
  'area',
  'base',
  'br',
  'col',
  'embed',
  'hr',
  'img',
  'input',
  'link',
  'meta',
  'source',
  'track',
  'wbr'
]);
/** HTML that ends at its own mark and not at a blank line. */
export const RAW_HTML: [RegExp, RegExp][] = [
  [
    /^<(?:script|pre|style|textarea)(?:[\s>]|$)/i,
    /<\/(?:script|pre|style|textarea)>/i
  ],
  [/^<!--/, /-->/],
  [/^<\?/, /\?>/],
  [/^<!\[CDATA\[/, /\]\]>/],
  [/^<![a-zA-Z]/, />/]
];
/** Fences whose text means something only when it is all there. */
export const WHOLE_FENCES = new Set(['mermaid']);

export interface IFence {
  readonly mark: string;
  readonly language: string;
  /** Columns of the list item the fence stands in; 0 at the top level. */
  readonly indent: number;
}

/** Whether Lab would look for the end of a formula in what follows. */
export function openMath(text: string): boolean {
  const bare = text.replace(/`[^`\n]*`/g, '').replace(/\\[$\\]/g, '');
  const dollars = (bare.match(/\$/g) ?? []).length;
  const begins = (text.match(/\\begin\{/g) ?? []).length;
  const ends = (text.match(/\\end\{/g) ?? []).length;
  return dollars % 2 === 1 || begins > ends;
}

/** Elements opened less elements closed on a line. */
export function depthOf(line: string): number {
  let depth = 0;
  for (const match of line.replace(/`[^`]*`/g, '').matchAll(TAG)) {
    if (!VOID.has(match[2].toLowerCase()) && !match[0].endsWith('/>')) {
      depth += match[1] ? -1 : 1;
    }
  }
  return depth;
}

export function closes(line: string, fence: IFence): boolean {
  const text = line.replace(/^[ \t]+/, '').trimEnd();
  const excess = columns(line) - fence.indent;
  return (
    excess <= 3 &&
    text.length >= fence.mark.length &&
    text.startsWith(fence.mark) &&
    text === fence.mark[0].repeat(text.length)
  );
}

/** Width of the leading white space; a tab reaches to the next multiple of four. */
export function columns(line: string): number {
  let width = 0;
  for (const character of line) {
    if (character === ' ') {
      width++;
    } else if (character === '\t') {
      width += 4 - (width % 4);
    } else {
      break;
    }
  }
  return width;
}
