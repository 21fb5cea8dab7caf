import {
  choosable,
  readToolChoices,
  serverMode,
  stricter,
  withToolChoices
} from '../toolApproval';

describe('readToolChoices', () => {
  it('passes over what makes no sense', () => {
    expect(
      readToolChoices({
        toolApproval: { notebook: 'ask', web: 'own', files: 7, other: 'off' },
        toolGroups: ['web', 'nonsense', 3, 'notebook'],
        defaults: { maxToolSteps: 99 }
      })
    ).toEqual({
      approval: { notebook: 'ask', other: 'off' },
      groups: ['notebook', 'web'],
      maxSteps: 50
    });
    for (const damaged of [null, 'x', [], { toolApproval: [], defaults: 1 }]) {
      expect(readToolChoices(damaged)).toEqual({
        approval: {},
        groups: [],
        maxSteps: null
      });
    }
  });
});

describe('withToolChoices', () => {
  const before = {
    defaults: { backend: 'local', maxToolSteps: 3 },
    toolApproval: { notebook: 'ask', ours_not: 'off' },
    toolGroups: ['web'],
    more: true
  };

  it('writes what was chosen and leaves the rest', () => {
    expect(
      withToolChoices(before, {
        approval: { execution: 'ask' },
        groups: ['notebook'],
        maxSteps: 12
      })
    ).toEqual({
      defaults: { backend: 'local', maxToolSteps: 12 },
      toolApproval: { execution: 'ask', ours_not: 'off' },
      toolGroups: ['notebook'],
      more: true
    });
  });

  it('leaves no empty things behind', () => {
    const nothing = { approval: {}, groups: [], maxSteps: null };
    expect(withToolChoices({ toolGroups: ['web'] }, nothing)).toEqual({});
    expect(before.defaults.maxToolSteps).toBe(3);
  });
});

describe('the server and the notebook', () => {
  it('agree on the stricter word', () => {
    expect(stricter('own', 'ask')).toBe('ask');
    expect(stricter('own', 'auto')).toBe('own');
    expect(stricter('off', 'ask')).toBe('off');
    expect(stricter('auto', null)).toBe('auto');
  });

  it('leave a choice of what is stricter only', () => {
    expect(choosable('auto')).toEqual(['ask', 'off']);
    expect(choosable('own')).toEqual(['ask', 'off']);
    expect(choosable('ask')).toEqual(['off']);
    expect(choosable('off')).toEqual([]);
    expect(serverMode('whatever')).toBe('ask');
  });
});
