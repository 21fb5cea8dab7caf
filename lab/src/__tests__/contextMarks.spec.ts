import { boxState, declaresTools, marksOf, seedFlags } from '../contextMarks';
import { cutsText, noteText } from '../contextText';
import type { IContextReport } from '../contextWire';

import type { TranslationBundle } from '@jupyterlab/translation';

/** English, with the arguments put in. */
const trans = {
  __: (text: string, ...args: unknown[]) =>
    text.replace(/%(\d)/g, (_, place) => String(args[Number(place) - 1])),
  _n: (one: string, many: string, count: number) =>
    (count === 1 ? one : many).replace('%1', String(count))
} as unknown as TranslationBundle;

const REPORT: IContextReport = {
  question: 'q',
  mode: 'all-above',
  style: 'compact',
  outputs: 'summaries',
  selected: ['far', 'long', 'near', 'q0', 'a0'],
  included: ['near', 'q0', 'a0'],
  partial: ['long'],
  omitted: ['far'],
  excluded: ['below'],
  ineligible: [
    { id: 'q', reason: 'current-question' },
    { id: 'a', reason: 'answer-to-current-question' },
    { id: 'raw', reason: 'raw-cell' },
    { id: 'half', reason: 'default-requires-earlier-complete-pair' }
  ],
  history: [['q0', 'a0']],
  above: { included: 3, partial: 1, omitted: 1 },
  below: { included: 0, partial: 0, omitted: 0 },
  unit: 'characters',
  counter: 'characters of the request',
  used: 60,
  allowed: 64,
  fixed: 10,
  truncations: [
    {
      id: 'long',
      what: 'source',
      kept: 'ending',
      sent_characters: 20,
      characters: 50
    },
    {
      id: 'near',
      what: 'outputs',
      kept: 'none',
      sent_characters: 0,
      characters: null
    }
  ],
  tools_offered: [],
  tools_disabled: ['off_tool'],
  tool_problems: { off_tool: 'tools-box-off' },
  variables: [],
  images: [
    {
      name: 'a.png',
      media_type: 'image/png',
      width: 0,
      height: 0,
      scaled: false,
      problem: 'model-takes-no-images'
    }
  ],
  trimmed: true
};

describe('marks of cells', () => {
  const marks = marksOf(REPORT);

  it('say what becomes of each', () => {
    const fates = [...marks].map(([id, mark]) => [id, mark.fate]);
    expect(Object.fromEntries(fates)).toEqual({
      below: 'excluded',
      far: 'omitted',
      long: 'partial',
      near: 'included',
      q0: 'included',
      a0: 'included',
      q: 'question',
      a: 'ineligible',
      raw: 'ineligible',
      half: 'ineligible'
    });
    expect(marks.get('a0')?.history).toBe(true);
    expect(marks.get('near')?.outputsCut).toBe(true);
  });

  it('show in the default mode what the next request holds', () => {
    const box = (id: string): object =>
      boxState('default', marks.get(id) ?? null, undefined);
    expect(box('near')).toEqual({
      checked: true,
      mixed: false,
      enabled: false
    });
    expect(box('long')).toEqual({ checked: true, mixed: true, enabled: false });
    expect(box('far')).toEqual({
      checked: false,
      mixed: false,
      enabled: false
    });
    expect(box('raw')).toMatchObject({ checked: false, enabled: false });
  });

  it('show in other modes what is selected', () => {
    const box = boxState('all-above', marks.get('far') ?? null, undefined);
    expect(box).toEqual({ checked: true, mixed: false, enabled: false });
  });

  it('show in Custom what was ticked, and let it be changed', () => {
    const box = (id: string, flag: unknown): object =>
      boxState('custom', marks.get(id) ?? null, flag);
    expect(box('below', undefined)).toMatchObject({
      checked: true,
      enabled: true
    });
    expect(box('near', false)).toMatchObject({ checked: false, enabled: true });
    expect(box('long', true)).toMatchObject({ checked: true, mixed: true });
    expect(box('raw', true)).toMatchObject({ checked: false, enabled: false });
    expect(boxState('custom', null, 'damaged')).toMatchObject({
      checked: true
    });
  });

  it('have notes in words', () => {
    const note = (id: string, above = true): string =>
      noteText(marks.get(id) ?? null, above, trans);
    expect(note('q')).toBe('Current question · always included');
    expect(note('long')).toBe('only its ending fits');
    expect(note('long', false)).toBe('only its beginning fits');
    expect(note('far')).toBe('left out: no room');
    expect(note('near')).toBe('without its outputs: no room');
    expect(note('q0')).toBe('');
    expect(note('unheard of')).toBe('');
  });

  it('seed Custom with exactly what was selected', () => {
    const ids = [...marks.keys(), 'new'];
    const flags = seedFlags(REPORT, ids);
    expect(Object.fromEntries(flags)).toEqual({
      far: true,
      long: true,
      near: true,
      q0: true,
      a0: true,
      below: false,
      half: false,
      new: false
    });
  });
});

describe('what was cut', () => {
  it('is told cell by cell', () => {
    expect(cutsText(REPORT, id => `<${id}>`, trans)).toEqual([
      'Of <long> the last 20 of 50 characters',
      'Outputs of <near> left out, no room',
      'Left out, no room: <far>',
      'Image a.png is not sent: the model takes no images',
      'Tool off_tool is not offered: its Tools box is off'
    ]);
  });

  it('counts what a short report leaves out', () => {
    const short = {
      ...REPORT,
      truncations: [],
      images: [],
      tool_problems: {},
      counts: { omitted: 1000 }
    };
    expect(cutsText(short, id => id, trans)).toEqual([
      'Left out, no room: far and 999 more'
    ]);
  });
});

describe('declarations of tools', () => {
  it.each([
    ['use &`add`', true],
    ['no `add`', false],
    ['broken &`add', false],
    ['&``', false]
  ])('in %j: %s', (source, declares) => {
    expect(declaresTools(source)).toBe(declares);
  });
});
