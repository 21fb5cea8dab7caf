import {
  answerToShow,
  canContinue,
  isRunning,
  isSuccess,
  readRole,
  sameRole
} from '../promptModel';
import type { IAnswer } from '../promptModel';

function answer(metadata: object): IAnswer {
  const role = readRole('markdown', {
    isOutputCell: true,
    promptCellId: 'p',
    ...metadata
  });
  expect(role?.kind).toBe('answer');
  return role as IAnswer;
}

describe('readRole', () => {
  it('knows a question and what was chosen for it', () => {
    expect(
      readRole('markdown', {
        isPromptCell: true,
        backend: 'anthropic_api',
        model: 'm',
        promptMode: 'learning',
        reasoningEffort: 'high',
        keepAnswer: false
      })
    ).toEqual({
      kind: 'prompt',
      backend: 'anthropic_api',
      model: 'm',
      promptMode: 'learning',
      reasoningEffort: 'high',
      keepAnswer: false
    });
    expect(readRole('markdown', { isPromptCell: true })).toEqual({
      kind: 'prompt',
      backend: null,
      model: null,
      promptMode: null,
      reasoningEffort: null,
      keepAnswer: null
    });
  });

  it('knows an answer, also one of which nearly nothing is told', () => {
    expect(
      answer({
        status: 'error',
        runId: 'r',
        author: 'ada',
        model: 'm',
        endedAt: '2026-01-01T00:00:00Z',
        error: { code: 'rate-limited', message: 'Wait a minute.' }
      })
    ).toEqual({
      kind: 'answer',
      promptId: 'p',
      approvalId: null,
      status: 'error',
      runId: 'r',
      author: 'ada',
      authorName: null,
      model: 'm',
      connection: null,
      endedAt: '2026-01-01T00:00:00Z',
      note: null,
      hasInputs: false,
      trimmed: false,
      secretsLeftOut: 0,
      error: { code: 'rate-limited', message: 'Wait a minute.' }
    });
    expect(answer({ secretsLeftOut: 2 })).toMatchObject({ secretsLeftOut: 2 });
    expect(answer({}).status).toBeNull();
    expect(answer({ status: 'no such word', runId: 7 })).toMatchObject({
      status: null,
      runId: null
    });
  });

  it.each([
    ['code', { isPromptCell: true }],
    ['raw', { isPromptCell: true }],
    ['markdown', undefined],
    ['markdown', null],
    ['markdown', 'text'],
    ['markdown', []],
    ['markdown', { isPromptCell: 'true' }],
    ['markdown', { isOutputCell: true }],
    ['markdown', { isOutputCell: true, promptCellId: 3 }]
  ])('sees nothing in a %s cell with %j', (type, metadata) => {
    expect(readRole(type, metadata)).toBeNull();
  });
});

describe('an answer', () => {
  it.each([
    ['queued', true, false, false],
    ['running', true, false, false],
    ['done', false, false, true],
    ['error', false, true, false],
    ['cancelled', false, true, false],
    ['interrupted', false, true, false]
  ] as const)(
    'that is %s: running %s, to be continued %s, success %s',
    (status, running, continued, success) => {
      const role = answer({ status, runId: 'r' });
      expect(isRunning(role)).toBe(running);
      expect(canContinue(role)).toBe(continued);
      expect(isSuccess(status)).toBe(success);
    }
  );

  it('cannot go on if no run is known', () => {
    expect(canContinue(answer({ status: 'interrupted' }))).toBe(false);
  });

  it('is the running one of several, else the last', () => {
    const first = { answer: answer({ status: 'running' }) };
    const last = { answer: answer({ status: 'done' }) };
    expect(answerToShow([first, last])).toBe(first);
    expect(answerToShow([{ answer: answer({}) }, last])).toBe(last);
    expect(answerToShow([])).toBeNull();
  });

  it('is compared by what it says', () => {
    expect(sameRole(answer({ runId: 'r' }), answer({ runId: 'r' }))).toBe(true);
    expect(sameRole(answer({ runId: 'r' }), answer({ runId: 's' }))).toBe(
      false
    );
    expect(sameRole(null, answer({}))).toBe(false);
  });
});
