import { AgentCaret } from '../agentCaret';

const CARET = '<span class="nbinline-AgentCaret" aria-hidden="true"></span>';

function placed(html: string): string {
  const host = document.createElement('div');
  host.innerHTML = html;
  const text = host.textContent;
  const caret = new AgentCaret();
  caret.moveTo(host);
  caret.moveTo(host);
  expect(host.textContent).toBe(text);
  return shown(host);
}

/** What stands there, but for where the label is drawn. */
function shown(host: HTMLElement): string {
  return host.innerHTML.replace(/ data-place="\w+"/g, '');
}

describe('AgentCaret', () => {
  it.each([
    ['<p>One.</p>\n<p>Two</p>\n', `<p>One.</p>\n<p>Two${CARET}</p>\n`],
    ['<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n', `<li>b${CARET}</li>`],
    ['<p>with <code>code</code></p>', `<code>code${CARET}</code>`],
    ['<pre><code>x = 1\n</code></pre>', `x = 1\n${CARET}</code>`],
    [
      '<table><tbody><tr><td>1</td><td>2</td></tr></tbody></table>',
      `<td>2${CARET}</td>`
    ],
    [
      '<h2>Title<a class="jp-InternalAnchorLink">¶</a></h2>',
      `<h2>Title${CARET}<a`
    ],
    ['<p>see <a href="x">link</a></p>', `</a>${CARET}</p>`],
    ['<p>a</p><hr>', `<hr>${CARET}`],
    ['', CARET]
  ])('stands behind the last words of %j', (html, expected) => {
    expect(placed(html)).toContain(expected);
  });

  it('is moved and not copied, and can be taken away', () => {
    const host = document.createElement('div');
    host.innerHTML = '<p>one</p>';
    const caret = new AgentCaret();
    caret.moveTo(host);
    host.insertAdjacentHTML('beforeend', '<p>two</p>');
    caret.moveTo(host);
    expect(shown(host)).toBe(`<p>one</p><p>two${CARET}</p>`);
    caret.remove();
    expect(host.innerHTML).toBe('<p>one</p><p>two</p>');
  });

  it('draws the label beside the first block and above the others', () => {
    const host = document.createElement('div');
    host.innerHTML = '<p>one</p>';
    const caret = new AgentCaret();
    const place = (): unknown =>
      host.querySelector<HTMLElement>('.nbinline-AgentCaret')?.dataset.place;
    caret.moveTo(host);
    expect(place()).toBe('beside');
    host.insertAdjacentHTML('beforeend', '<p>two</p>');
    caret.moveTo(host);
    expect(place()).toBe('above');
  });

  it('says whose it is without being text of the answer', () => {
    const host = document.createElement('div');
    const caret = new AgentCaret();
    caret.describe({
      runId: 'r',
      name: 'AI agent',
      color: '#8e24aa',
      status: null
    });
    caret.moveTo(host);
    const node = host.firstElementChild as HTMLElement;
    expect(node.dataset.name).toBe('AI agent');
    expect(node.style.getPropertyValue('--nbinline-agent-color')).toBe(
      '#8e24aa'
    );
    expect(host.textContent).toBe('');
  });
});
