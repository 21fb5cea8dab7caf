import { withChoices, withDefaults } from '../choices';
import {
  chosenModel,
  effortsOf,
  forced,
  readDefaults,
  takesImages
} from '../connections';
import { freeName, outputImage, withImage } from '../questionImages';
import type { IServerStatus } from '../wire';

const status = {
  version: '1',
  ready: true,
  problems: [],
  default_connection: 'one',
  connections: {
    one: {
      kind: 'openai',
      label: 'One',
      configured: true,
      source: null,
      models: ['a', 'b'],
      default_model: 'a',
      efforts: { a: ['low', 'high'], b: [] },
      other_efforts: ['low'],
      images: { a: true, b: false },
      other_images: true
    },
    two: {
      kind: 'chat',
      label: 'Two',
      configured: true,
      source: null,
      models: ['c'],
      default_model: 'c'
    }
  }
} as unknown as IServerStatus;

describe('choices', () => {
  it('change only their own keys', () => {
    const before = { isPromptCell: true, model: 'm', other: [1] };
    expect(withChoices(before, { model: null, backend: 'one' })).toEqual({
      isPromptCell: true,
      other: [1],
      backend: 'one'
    });
    expect(before.model).toBe('m');
    expect(withChoices('damaged', { model: 'm' })).toEqual({ model: 'm' });
  });

  it('of a notebook go into its defaults', () => {
    expect(
      withDefaults(
        { customContextInitialized: true, defaults: { model: 'm' } },
        { model: null, contextMode: 'custom' }
      )
    ).toEqual({
      customContextInitialized: true,
      defaults: { contextMode: 'custom' }
    });
    expect(withDefaults(undefined, { model: 'm' })).toEqual({
      defaults: { model: 'm' }
    });
  });

  const defaults = (values: object): ReturnType<typeof readDefaults> =>
    readDefaults({ defaults: values });

  it.each([
    [{ backend: null, model: null }, {}, 'a'],
    [{ backend: null, model: 'x' }, {}, 'x'],
    [{ backend: 'two', model: null }, { model: 'x' }, 'x'],
    [{ backend: 'two', model: null }, { backend: 'one', model: 'x' }, 'c'],
    [{ backend: null, model: null }, { backend: 'two', model: 'x' }, 'x']
  ])(
    'of %j in a notebook with %j mean the model %s',
    (question, own, model) => {
      expect(chosenModel(status, question, defaults(own))).toBe(model);
    }
  );

  it('are taken by the server where it prescribes them', () => {
    const strict = {
      ...status,
      policy: { forced: { model: 'b', keepAnswers: true } }
    };
    const question = { backend: null, model: 'x' };
    expect(chosenModel(strict, question, defaults({}))).toBe('b');
    expect(forced(strict, 'keepAnswers')).toBe('true');
    expect(forced(strict, 'backend')).toBeNull();
    expect(forced(null, 'model')).toBeNull();
  });

  it('of effort and images depend on the model', () => {
    const { one, two } = status.connections;
    expect(effortsOf(one, 'a')).toEqual(['low', 'high']);
    expect(effortsOf(one, 'b')).toEqual([]);
    expect(effortsOf(one, 'typed')).toEqual(['low']);
    expect(effortsOf(two, 'c')).toEqual([]);
    expect(effortsOf(null, null)).toEqual([]);
    expect(takesImages(one, 'b')).toBe(false);
    expect(takesImages(one, 'typed')).toBe(true);
    expect(takesImages(two, 'c')).toBeNull();
  });
});

describe('images of questions', () => {
  it.each([
    ['plot.png', [], 'plot.png'],
    ['my plot (1).png', [], 'my-plot-1-.png'],
    ['größe.jpg', [], 'größe.jpg'],
    ['plot.png', ['plot.png', 'plot-2.png'], 'plot-3.png'],
    ['[](x)', [], 'x-'],
    ['', [], 'image']
  ])('called %j beside %j are attached as %j', (name, taken, free) => {
    expect(freeName(name, taken)).toBe(free);
  });

  it('stand on a line of their own', () => {
    expect(withImage('', 'a')).toBe('![a](attachment:a)\n');
    expect(withImage('Why?', 'a')).toBe('\n\n![a](attachment:a)\n');
    expect(withImage('Why?\n', 'a')).toBe('![a](attachment:a)\n');
  });

  it('are the last raster image of an output', () => {
    const shown = (data: object): object => ({
      output_type: 'display_data',
      data
    });
    expect(
      outputImage([
        shown({ 'image/png': 'one' }),
        shown({ 'image/jpeg': ['tw', 'o'], 'text/plain': 'x' }),
        shown({ 'image/svg+xml': '<svg/>' }),
        { output_type: 'stream', text: 'x' }
      ])
    ).toEqual({ name: 'output.jpeg', bundle: { 'image/jpeg': 'two' } });
    expect(outputImage([shown({ 'text/plain': 'x' }), null])).toBeNull();
    expect(outputImage([])).toBeNull();
  });
});
