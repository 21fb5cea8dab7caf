/**
 * @jest-environment node
 */
import fc from 'fast-check';

import { base64, sourceDigest } from '../asked';
import {
  chosenConnection,
  connectionOfModel,
  offeredModels,
  readDefaults
} from '../connections';
import { RunError } from '../errors';
import { presenceOf } from '../presence';
import { isActive, modelsOf } from '../wire';
import type { IConnection, IServerStatus } from '../wire';

const FALLBACK = { code: 'server-error', message: 'It failed.' };

describe('what the asker saw', () => {
  it('is a digest of the source in UTF-8', () => {
    expect(sourceDigest('')).toBe(
      'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
    );
    expect(sourceDigest('Wie groß? 数据 👩‍👩‍👧')).toBe(
      '99b8126efa6b5e636c3171da3748bdaec53ffb24eef3aea696a367721623fcb2'
    );
  });

  it('is base64 that any server reads', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), bytes => {
        const read = atob(base64(bytes));
        expect([...read].map(each => each.charCodeAt(0))).toEqual([...bytes]);
      })
    );
  });
});

describe('RunError', () => {
  it('keeps code, message and run of the server', () => {
    const body = JSON.stringify({
      error: {
        code: 'run-active',
        message: 'It runs already.',
        retryable: true,
        run_id: 'r1'
      }
    });
    expect(RunError.fromResponse(409, body, FALLBACK)).toMatchObject({
      code: 'run-active',
      message: 'It runs already.',
      retryable: true,
      runId: 'r1'
    });
  });

  it.each(['<html>', '', '[]', '{"error": "text"}', '{"error": {"code": 1}}'])(
    'says something useful for a body of %j',
    body => {
      expect(RunError.fromResponse(502, body, FALLBACK)).toMatchObject({
        code: 'server-error',
        message: 'It failed.',
        runId: null
      });
    }
  );

  it("passes on what Jupyter's own handlers say", () => {
    const body = JSON.stringify({ message: 'Forbidden', reason: null });
    expect(RunError.fromResponse(403, body, FALLBACK).message).toBe(
      'Forbidden (403)'
    );
  });
});

describe('connections', () => {
  const connection = (models: IConnection['models']): IConnection => ({
    kind: 'chat',
    label: 'Label',
    configured: true,
    source: null,
    models,
    default_model: null
  });
  const status: IServerStatus = {
    version: '0',
    ready: true,
    problems: [],
    connections: {
      one: connection(['a', 'b']),
      local: connection([{ id: 'small', label: 'Small' }])
    },
    default_connection: 'one'
  };
  const none = readDefaults(undefined);

  it('are chosen by the question, the notebook, the server', () => {
    const defaults = readDefaults({ defaults: { backend: 'local' } });
    expect(chosenConnection(status, 'one', defaults)?.id).toBe('one');
    expect(chosenConnection(status, null, defaults)?.id).toBe('local');
    expect(chosenConnection(status, null, none)?.id).toBe('one');
    expect(chosenConnection(status, 'gone', none)).toBeNull();
    expect(chosenConnection(null, 'one', none)).toBeNull();
  });

  it('are found by the model that answered', () => {
    const chosen = chosenConnection(status, null, none);
    expect(connectionOfModel(status, 'small', chosen)).toBe(
      status.connections.local
    );
    expect(connectionOfModel(status, 'a', chosen)).toBe(status.connections.one);
    expect(connectionOfModel(status, 'other', chosen)).toBe(
      status.connections.one
    );
    expect(connectionOfModel(null, 'a', null)).toBeNull();
  });

  it('offer their models and the one that was typed', () => {
    const { one } = status.connections;
    expect(offeredModels(one, null).map(each => each.id)).toEqual(['a', 'b']);
    expect(offeredModels(one, 'c').map(each => each.id)).toEqual([
      'a',
      'b',
      'c'
    ]);
    expect(offeredModels(null, null)).toEqual([]);
    expect(modelsOf(status.connections.local)).toEqual([
      { id: 'small', label: 'Small' }
    ]);
  });

  it.each([undefined, null, 'text', [], { defaults: 3 }, { defaults: [] }])(
    'have no defaults in %j',
    metadata => {
      expect(readDefaults(metadata)).toEqual({
        backend: null,
        model: null,
        promptMode: null,
        reasoningEffort: null,
        contextMode: null,
        outputs: null,
        keepAnswers: false
      });
    }
  );
});

describe('presence', () => {
  const agent = (user: object): object => ({
    user,
    nbinline: { run_id: 'r', status: 'streaming' }
  });

  it('is that of the run, among people and other agents', () => {
    const states = [
      null,
      { user: { name: 'Ada' } },
      { nbinline: { run_id: 'other' } },
      agent({ display_name: 'AI agent', color: '#8e24aa' })
    ];
    expect(presenceOf(states, 'r')).toEqual({
      runId: 'r',
      name: 'AI agent',
      color: '#8e24aa',
      status: 'streaming',
      progress: null
    });
    expect(presenceOf(states, 'none')).toBeNull();
  });

  it.each([
    'red; background: url(https://example.org)',
    'url(x)',
    'expression(1)',
    7,
    '#12'
  ])('takes no colour from %j', color => {
    expect(presenceOf([agent({ name: 'A', color })], 'r')?.color).toBeNull();
  });
});

describe('isActive', () => {
  it('holds for everything before the end', () => {
    expect(
      (['queued', 'preparing', 'streaming', 'waiting-approval'] as const).every(
        isActive
      )
    ).toBe(true);
    expect(
      (['done', 'error', 'cancelled', 'interrupted'] as const).some(isActive)
    ).toBe(false);
  });
});
