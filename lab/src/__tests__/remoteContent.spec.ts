import {
  dress,
  elsewhere,
  heldBack,
  plainHeading,
  withoutLoadingDrawings
} from '../remoteContent';

const PLACES = {
  page: 'http://hub.example/user/ada/lab/tree/course/nb.ipynb',
  own: 'http://hub.example/user/ada/'
};

function held(html: string, ...allowed: string[]): string {
  return (
    heldBack(html, {
      ...PLACES,
      isAllowed: url => allowed.includes(url)
    }) ?? html
  );
}

describe('elsewhere', () => {
  it.each([
    'http://x.example/a.png',
    '//x.example/a.png',
    '\\\\x.example\\a.png',
    'ht\ntps://x.example',
    ' https://x.example ',
    'https:x.example',
    'ftp://x.example/a',
    'blob:http://hub.example/1',
    // Other people's servers on the same hub, and leaving one's own.
    '/user/mallory/files/a.png?secret',
    '../../../../user/mallory/a.png',
    '/hub/logout',
    '/user/ada/logout'
  ])('%j is', address => {
    expect(elsewhere(address, PLACES)).toBeInstanceOf(URL);
  });

  it.each([
    'plot.png',
    './a/plot.png',
    '../data/plot.png?x=1',
    'attachment:plot.png',
    'data:image/png;base64,AAAA',
    '#heading',
    '/user/ada/files/plot.png'
  ])('%j is not', address => {
    expect(elsewhere(address, PLACES)).toBeUndefined();
  });

  it('makes nothing of nonsense', () => {
    expect(elsewhere('http://', PLACES)).toBeNull();
  });
});

describe('heldBack', () => {
  it('leaves alone what loads nothing', () => {
    for (const html of [
      '<p>a <b>b</b> $c$</p>',
      '<p><img src="plot.png" alt="x"></p>',
      '<p><img src="data:image/gif;base64,R0"></p>',
      '<p style="color: red">x <a href="#there">y</a></p>'
    ]) {
      expect(held(html)).toBe(html);
    }
  });

  it('puts a button that names the host in the place of an image', () => {
    expect(held('<p><img src="//x.example/a.png?q" alt="A plot"></p>')).toBe(
      '<p><button type="button" class="nbinline-Remote nbinline-mod-img" ' +
        'value="http://x.example/a.png?q" title="A plot"></button></p>'
    );
  });

  it.each([
    '<img srcset="a.png 1x, https://x.example/b.png 2x">',
    '<img src="a.png" srcset="https://x.example/b.png">',
    '<input type="image" src="https://x.example/b.png">',
    '<video poster="https://x.example/b.png" src="a.mp4"></video>',
    '<audio src="https://x.example/b.mp3" autoplay></audio>',
    '<table background="https://x.example/b.png"></table>',
    '<div style="background-image: url(https://x.example/b.png)">x</div>',
    '<div style="background: \\75rl(https://x.example/b.png)">x</div>',
    '<div style="background:image-set(\'https://x.example/b.png\' 1x)">x</div>',
    '<a href="plot.png" ping="https://x.example/b">x</a>'
  ])('%s loads nothing', html => {
    const template = document.createElement('template');
    template.innerHTML = held(html);
    for (const element of template.content.querySelectorAll('*')) {
      for (const name of ['src', 'srcset', 'poster', 'background', 'ping']) {
        expect(element.getAttribute(name) ?? '').not.toContain('x.example');
      }
      expect(element.getAttribute('style') ?? '').not.toContain('x.example');
    }
  });

  it('keeps what is here of an image that also names what is elsewhere', () => {
    expect(held('<img src="a.png" srcset="https://x.example/b.png">')).toBe(
      '<img src="a.png">'
    );
  });

  it('shows what somebody has asked for', () => {
    const html = '<p><img src="https://x.example/a.png"></p>';
    expect(held(html, 'https://x.example/a.png')).toBe(html);
  });

  it('takes away our own classes and commands that are not ours', () => {
    const html = held(
      '<button class="nbinline-Remote x" value="https://x.example" data-commandlinker-command="a:b" data-commandlinker-args="{}">Load</button>'
    );
    expect(html).toBe(
      '<button class="x" value="https://x.example">Load</button>'
    );
  });
});

describe('withoutLoadingDrawings', () => {
  const drawn = (inside: string): string =>
    `x\n\n\`\`\`mermaid\n${inside}\n\`\`\`\n`;

  it('draws what loads nothing', () => {
    for (const fine of ['graph TD\n A[An image] --> B', 'pie\n "a": 1']) {
      expect(withoutLoadingDrawings(drawn(fine))).toBe(drawn(fine));
    }
  });

  it.each([
    'flowchart TD\n A@{ img: "https://x.example/a.png" }',
    'flowchart TD\n A@{ img: "/user/mallory/a.png" }',
    "%%{init: {'themeCSS': '.x {}'}}%%\ngraph TD\n A",
    'graph TD\n style A fill:url( x )',
    'graph TD\n A["<img src=x>"]'
  ])('shows the text of %j', inside => {
    expect(withoutLoadingDrawings(drawn(inside))).toContain('```text\n');
  });
});

function dressed(html: string): { host: HTMLElement; asked: string[] } {
  const host = document.createElement('div');
  host.innerHTML = held(html);
  const asked: string[] = [];
  dress(host, PLACES, {
    label: (kind, name, alt) => `${kind} ${name} ${alt}`.trim(),
    asked: url => asked.push(url)
  });
  return { host, asked };
}

describe('dress', () => {
  it('says where links lead unless they say so themselves', () => {
    const { host } = dressed(
      '<a href="https://evil.example/x">good.example</a>'
    );
    expect(host.textContent).toBe('good.example (evil.example)');
    expect(host.querySelector('a')!.title).toBe('https://evil.example/x');
    for (const plain of [
      '<a href="https://a.example/x">https://a.example/x</a>',
      '<a href="other.ipynb">there</a>',
      '<a href="#here">here</a>'
    ]) {
      expect(dressed(plain).host.querySelector('.nbinline-Target')).toBeNull();
    }
  });

  it('makes placeholders that load when they are pressed, and keeps the focus', () => {
    const { host, asked } = dressed(
      '<p><img src="https://x.example/a.png" alt="A plot"></p>'
    );
    document.body.append(host);
    const button = host.querySelector('button')!;
    expect(button.textContent).toBe('img x.example A plot');
    expect(button.title).toBe('https://x.example/a.png');
    expect(host.querySelector('img')).toBeNull();
    button.click();
    expect(asked).toEqual(['https://x.example/a.png']);
    const image = host.querySelector('img')!;
    expect(image.src).toBe('https://x.example/a.png');
    expect(document.activeElement).toBe(image);
    host.remove();
  });
});

describe('plainHeading', () => {
  it('keeps headings that load nothing', () => {
    expect(plainHeading('## A *b* `c`', 'A b c', 2)).toBe('## A *b* `c`');
  });

  it('makes text of the others', () => {
    const raw = '## A_b ![x](http://x.example/a) [y]';
    expect(plainHeading(raw, 'A_b  [y]', 2)).toBe('## A\\_b  \\[y\\]');
  });
});
