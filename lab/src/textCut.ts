/** Finds where a long paragraph can be cut without being rendered differently. Pure. */

/** Paragraphs longer than this (UTF-16 units) are cut between words. */
export const TEXT_LENGTH = 1200;

/** How a line begins that is nothing but text of a paragraph. */
const PLAIN_LINE = /^[\p{L}$("'[*_`](?![ \t])/u;
const SPACE = /\s/;
const LETTER = /^\p{L}/u;
const BLANK_LINES = /^(?:[ \t\r]*\n)*/;

/** What is open at some place of a paragraph. */
class Inline {
  /** Whether all that was opened has been closed. */
  get isClosed(): boolean {
    return (
      this._marks.size === 0 && this._brackets === 0 && this._target === false
    );
  }

  /**
   * Take one token that stands between two characters.
   *
   * @returns Whether one can tell what it means.
   */
  take(token: string, before: string, after: string): boolean {
    switch (token[0]) {
      case '[':
        this._brackets++;
        return true;
      case ']':
        this._brackets = Math.max(0, this._brackets - 1);
        this._target = token === '](';
        return true;
      case ')':
        this._target = false;
        return true;
      case '$':
        this._toggle(token);
        return token.length <= 2;
      case '*':
      case '_':
      case '~':
        return this._emphasis(token, before, after);
      case '`':
        // Code is one token: this is open, or of a kind that parsers disagree on.
        return /^`[^`]+`$/.test(token);
      default:
        return !token.startsWith('<');
    }
  }

  private _emphasis(token: string, before: string, after: string): boolean {
    if (SPACE.test(before) && SPACE.test(after)) {
      return true;
    }
    const marks = token.length === 3 ? [token[0], token.slice(1)] : [token];
    const opens = marks.every(mark => !this._marks.has(mark));
    const closes = marks.every(mark => this._marks.has(mark));
    marks.forEach(mark => this._toggle(mark));
    return (
      token.length <= 3 &&
      ((opens && !SPACE.test(after)) || (closes && !SPACE.test(before)))
    );
  }

  private _toggle(mark: string): void {
    if (!this._marks.delete(mark)) {
      this._marks.add(mark);
    }
  }

  private readonly _marks = new Set<string>();
  private _brackets = 0;
  private _target = false;
}

const TOKEN =
  /\\.|`[^`]+`(?!`)|`+|\*+|_+|~+|\$+|\[|\]\(?|\)|<(?=[a-zA-Z/!?])|\n| (?=\S)/gu;

/**
 * Where the first part of a paragraph ends.
 *
 * @returns The offset of the next part, which begins with a letter; -1 if the paragraph
 * is short, or if one cannot tell. What is added later does not move it.
 */
export function textCut(text: string): number {
  const begin = (BLANK_LINES.exec(text) as RegExpExecArray)[0].length;
  if (!PLAIN_LINE.test(text.slice(begin, begin + 3))) {
    return -1;
  }
  const inline = new Inline();
  TOKEN.lastIndex = begin;
  for (let match = TOKEN.exec(text); match; match = TOKEN.exec(text)) {
    const next = match.index + match[0].length;
    if (match[0] === '\n') {
      if (!PLAIN_LINE.test(text.slice(next, next + 3))) {
        return -1;
      }
    } else if (match[0] === ' ') {
      if (
        next - begin >= TEXT_LENGTH &&
        inline.isClosed &&
        /\S/.test(text[match.index - 1] ?? '') &&
        LETTER.test(text.slice(next, next + 2))
      ) {
        return next;
      }
    } else if (
      !inline.take(match[0], text[match.index - 1] ?? ' ', text[next] ?? ' ')
    ) {
      return -1;
    }
  }
  return -1;
}
