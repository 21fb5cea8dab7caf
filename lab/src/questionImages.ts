/** Images in questions: names, Markdown, and which output is one. Pure. */

/** Types that models take as they are. */
const RASTER = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];

export interface IOutputImage {
  readonly name: string;
  readonly bundle: Record<string, string>;
}

/** The last raster image among the outputs of a cell. */
export function outputImage(outputs: readonly unknown[]): IOutputImage | null {
  for (const output of [...outputs].reverse()) {
    const data = isObject(output) ? output.data : null;
    for (const type of isObject(data) ? RASTER : []) {
      const content = (data as Record<string, unknown>)[type];
      const text = Array.isArray(content) ? content.join('') : content;
      if (typeof text === 'string' && text !== '') {
        const ending = type.slice('image/'.length);
        return { name: `output.${ending}`, bundle: { [type]: text } };
      }
    }
  }
  return null;
}

/**
 * A name for an attachment that is safe in a Markdown link and not in use.
 *
 * @param taken - Names of the cell's attachments.
 */
export function freeName(name: string, taken: readonly string[]): string {
  const plain = name.replace(/[^\p{L}\p{N}._-]+/gu, '-').replace(/^-+/, '');
  const dot = plain.lastIndexOf('.');
  const stem = (dot > 0 ? plain.slice(0, dot) : plain) || 'image';
  const ending = dot > 0 ? plain.slice(dot) : '';
  let free = `${stem}${ending}`;
  for (let number = 2; taken.includes(free); number++) {
    free = `${stem}-${number}${ending}`;
  }
  return free;
}

/** The Markdown that shows an attachment, on a line of its own. */
export function withImage(before: string, name: string): string {
  const gap = before === '' || before.endsWith('\n') ? '' : '\n\n';
  return `${gap}![${name}](attachment:${name})\n`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
