/**
 * Holds back what a rendered text would load from elsewhere, and says where links lead.
 * Works on HTML that the sanitizer has let through; knows no JupyterLab.
 */

/** What stands for something that is not loaded yet. */
export const PLACEHOLDER = 'nbinline-Remote';

/** What says where a link leads. */
export const TARGET = 'nbinline-Target';

export type RemoteKind = 'img' | 'audio' | 'video';

export interface IHoldOptions {
  /** Address of the page; relative addresses are resolved against it as the browser does. */
  readonly page: string;
  /** Address below which this server's own files and pages are. */
  readonly own: string;
  /** Whether a person has asked for this address. */
  readonly isAllowed: (url: string) => boolean;
}

export interface IDressOptions {
  /** What a placeholder says. */
  readonly label: (kind: RemoteKind, host: string, alt: string) => string;
  /** Called with the address when a person asks for it. */
  readonly asked: (url: string) => void;
}

/** Whether there may be anything to hold back. */
const SUSPICIOUS =
  /<(?:a|area|audio|button|img|input|video)\b|(?:background|cite|href|ping|poster|src|srcset|style)\s*=|nbinline-/i;

/** Attributes that make a browser load something, on whatever element. */
const LOADING = ['src', 'srcset', 'poster', 'background', 'data', 'ping'];

const MEDIA: readonly RemoteKind[] = ['img', 'audio', 'video'];

/**
 * HTML that loads nothing from elsewhere.
 *
 * @param html - Sanitized HTML.
 * @returns Null if there is nothing to change. What is returned has been parsed and written
 * anew, so it must be sanitized once more.
 */
export function heldBack(html: string, options: IHoldOptions): string | null {
  if (!SUSPICIOUS.test(html)) {
    return null;
  }
  // The content of a template is inert: nothing of it is loaded or run.
  const template = document.createElement('template');
  template.innerHTML = html;
  const before = template.innerHTML;
  for (const element of template.content.querySelectorAll<HTMLElement>('*')) {
    hold(element, options);
  }
  return template.innerHTML === before ? null : template.innerHTML;
}

function hold(element: HTMLElement, options: IHoldOptions): void {
  // Only we speak in our own classes, and nothing written by a model runs commands.
  for (const name of [...element.classList]) {
    if (name.startsWith('nbinline-')) {
      element.classList.remove(name);
    }
  }
  element.removeAttribute('data-commandlinker-command');
  element.removeAttribute('data-commandlinker-args');
  holdStyle(element);
  const kind = MEDIA.find(each => each === element.localName);
  for (const name of LOADING) {
    const held = addresses(element, name, options).filter(
      url => url === null || !options.isAllowed(url.href)
    );
    if (held.length === 0) {
      continue;
    }
    const [first] = held;
    if (kind && name === 'src' && first && /^https?:$/.test(first.protocol)) {
      element.replaceWith(placeholder(kind, first, element));
      return;
    }
    element.removeAttribute(name);
  }
}

/** What a drawing may load something with; it is drawn before anybody can look at it. */
const LOADS_IN_DRAWING =
  /\/\/|\\|https?:|ftp:|&|#\w+;|%%\{|^---|@\{[^}]*img|url\s*\(|<\s*ima?ge?\b/im;

/**
 * Markdown whose drawings load nothing: those that could are shown as their text.
 *
 * JupyterLab draws diagrams while it makes HTML of Markdown, before it is sanitized.
 */
export function withoutLoadingDrawings(markdown: string): string {
  return /mermaid/i.test(markdown) && LOADS_IN_DRAWING.test(markdown)
    ? markdown.replace(/(`{3,}|~{3,})([ \t]*)mermaid/gi, '$1$2text')
    : markdown;
}

/** The addresses elsewhere that an attribute names; null for one that makes no sense. */
function addresses(
  element: Element,
  name: string,
  options: IHoldOptions
): (URL | null)[] {
  const value = element.getAttribute(name);
  if (value === null || value.trim() === '') {
    return [];
  }
  if (name === 'ping') {
    return [null];
  }
  const candidates =
    name === 'srcset'
      ? value.split(',').map(each => each.trim().split(/\s+/)[0])
      : [value];
  return candidates
    .filter(each => each !== '')
    .map(each => elsewhere(each, options))
    .filter(url => url !== undefined);
}

/**
 * Where an address leads if that is elsewhere.
 *
 * @returns Undefined for data, attachments and this server's own; null if it is none.
 */
export function elsewhere(
  address: string,
  { page, own }: Pick<IHoldOptions, 'page' | 'own'>
): URL | null | undefined {
  let url: URL;
  try {
    url = new URL(address, page);
  } catch {
    return null;
  }
  if (url.protocol === 'data:' || url.protocol === 'attachment:') {
    return undefined;
  }
  const base = new URL(own, page);
  const isOwn =
    url.origin === base.origin &&
    url.pathname.startsWith(base.pathname) &&
    url.pathname !== `${base.pathname}logout`;
  return isOwn ? undefined : url;
}

/** Has no text before it is dressed: headings get their ids from their text. */
function placeholder(
  kind: RemoteKind,
  url: URL,
  element: Element
): HTMLElement {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = `${PLACEHOLDER} nbinline-mod-${kind}`;
  button.value = url.href;
  button.title = element.getAttribute('alt')?.trim() ?? '';
  return button;
}

/** Styles may set colours and sizes, and load nothing. */
function holdStyle(element: Element): void {
  const style = element.getAttribute('style');
  if (style === null) {
    return;
  }
  const kept = style
    .replace(/url\(\s*(['"]?)data:[^)]*\)/gi, '')
    .match(/\\|url|image|src|@|expression/i);
  if (kept !== null) {
    element.removeAttribute('style');
  }
}

/** Say in the page what was held back and where links lead. */
export function dress(
  host: HTMLElement,
  places: Pick<IHoldOptions, 'page' | 'own'>,
  options: IDressOptions
): void {
  host
    .querySelectorAll<HTMLButtonElement>(`button.${PLACEHOLDER}`)
    .forEach(button => dressPlaceholder(button, options));
  host
    .querySelectorAll<HTMLElement>('a[href], area[href]')
    .forEach(link => nameTarget(link, places));
}

/** Behind the text of a link stands where it leads, unless the text says just that. */
function nameTarget(
  element: HTMLElement,
  places: Pick<IHoldOptions, 'page' | 'own'>
): void {
  const address = element.getAttribute('href');
  const url = address ? elsewhere(address, places) : undefined;
  if (url === undefined) {
    return;
  }
  if (url === null) {
    element.removeAttribute('href');
    return;
  }
  element.title = url.href;
  const text = element.textContent?.trim() ?? '';
  const says = text === address || text === url.href;
  if (!says && element.localName === 'a') {
    const target = document.createElement('span');
    target.className = TARGET;
    target.textContent = ` (${url.host || url.protocol + url.pathname})`;
    element.append(target);
  }
}

/** Let a placeholder load what it stands for when it is pressed. */
function dressPlaceholder(
  button: HTMLButtonElement,
  { label, asked }: IDressOptions
): void {
  const url = new URL(button.value);
  button.textContent = label(kindOf(button), url.host, button.title);
  button.title = url.href;
  // Keys pressed on it are not the notebook's shortcuts, nor is a press the begin of a drag.
  button.dataset.lmSuppressShortcuts = 'true';
  button.addEventListener('mousedown', event => event.stopPropagation());
  button.addEventListener('dblclick', event => event.stopPropagation());
  button.addEventListener('click', event => {
    event.preventDefault();
    event.stopPropagation();
    asked(url.href);
    const loaded = media(button);
    button.replaceWith(loaded);
    loaded.focus({ preventScroll: true });
  });
}

function kindOf(button: HTMLButtonElement): RemoteKind {
  return (
    MEDIA.find(each => button.classList.contains(`nbinline-mod-${each}`)) ??
    'img'
  );
}

/**
 * A heading without what it would load: JupyterLab renders headings of the table of contents
 * once more, each for itself.
 *
 * @param raw - Its Markdown.
 * @param text - Its text.
 */
export function plainHeading(raw: string, text: string, level: number): string {
  return /[!<]/.test(raw)
    ? `${'#'.repeat(level)} ${text.replace(/[!-/:-@[-`{-~]/g, '\\$&')}`
    : raw;
}

function media(button: HTMLButtonElement): HTMLElement {
  const kind = kindOf(button);
  if (kind === 'audio' || kind === 'video') {
    const player = document.createElement(kind);
    player.controls = true;
    player.src = button.value;
    return player;
  }
  const image = document.createElement('img');
  image.referrerPolicy = 'no-referrer';
  image.tabIndex = -1;
  image.alt = button.textContent ?? '';
  image.src = button.value;
  return image;
}
