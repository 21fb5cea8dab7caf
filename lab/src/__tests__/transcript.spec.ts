import fc from 'fast-check';

import { diffLines, MOST_LINES, secondsLeft } from '../approval';
import { canRevert, readRole } from '../promptModel';
import type { IAnswer } from '../promptModel';
import { LONGEST, steps } from '../transcript';
import type { IRunEvent } from '../wire';

let seq = 0;

function event(type: string, rest: Record<string, unknown>): IRunEvent {
  return { seq: ++seq, at: '2026-01-01T00:00:00Z', type, ...rest };
}

describe('steps', () => {
  it('are calls in order, each with its end', () => {
    const found = steps([
      event('status', { status: 'streaming' }),
      event('tool-called', {
        call_id: 'a',
        name: 'run_cell',
        cell_id: 'c1',
        arguments: { cell_id: 'c1', note: 'two\nlines', deep: { x: 1 } }
      }),
      event('tool-called', { call_id: 'b', name: 'read_cells', arguments: {} }),
      event('tool-finished', {
        call_id: 'b',
        outcome: 'ok',
        seconds: 0.25,
        summary: 'read 3',
        cell_ids: ['c2', 'c3']
      })
    ]);
    expect(found).toEqual([
      {
        callId: 'a',
        name: 'run_cell',
        cellIds: ['c1'],
        arguments: 'cell_id: c1\nnote:\ntwo\nlines\ndeep: {"x":1}',
        diff: null,
        outcome: 'running',
        seconds: null,
        summary: ''
      },
      {
        callId: 'b',
        name: 'read_cells',
        cellIds: ['c2', 'c3'],
        arguments: '',
        diff: null,
        outcome: 'ok',
        seconds: 0.25,
        summary: 'read 3'
      }
    ]);
  });

  it('read arguments that are JSON text, and text that is none', () => {
    const read = (value: unknown): string =>
      steps([
        event('tool-called', { call_id: 'a', name: 'f', arguments: value })
      ])[0].arguments;
    expect(read('{"code": "1 + 1"}')).toBe('code: 1 + 1');
    expect(read('{"code": ')).toBe('{"code": ');
    expect(read(undefined)).toBe('');
    expect(read('"' + 'x'.repeat(2 * LONGEST) + '"').length).toBe(LONGEST + 1);
  });

  it('never fail, whatever the journal holds', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            seq: fc.nat(),
            at: fc.nat(),
            type: fc.constantFrom('tool-called', 'tool-finished', 'status'),
            call_id: fc.anything(),
            name: fc.anything(),
            arguments: fc.oneof(fc.json(), fc.jsonValue()),
            outcome: fc.anything(),
            seconds: fc.anything(),
            cell_ids: fc.anything()
          })
        ),
        events => {
          for (const step of steps(events)) {
            expect(typeof step.name).toBe('string');
            expect(step.arguments.length).toBeLessThanOrEqual(LONGEST + 1);
          }
        }
      )
    );
  });

  it('tell a call whose beginning is no longer known', () => {
    const [step] = steps([
      event('tool-finished', { call_id: 'a', name: 'f', outcome: 'odd' })
    ]);
    expect(step).toMatchObject({ name: 'f', outcome: 'error' });
  });
});

describe('approval', () => {
  it('shows a diff without file names', () => {
    const { lines, more } = diffLines(
      '--- before\n+++ after\n@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 3\n'
    );
    expect(lines.map(line => line.kind)).toEqual(['same', 'removed', 'added']);
    expect(more).toBe(0);
  });

  it('names the cells of a diff of several, and where in them', () => {
    const { lines } = diffLines(
      '--- a\n+++ a\n@@ -7 +7 @@\n--- x\n+++ y\n--- b\n+++ b\n@@ -0,0 +1 @@\n+z\n',
      id => `cell ${id}`
    );
    expect(lines).toEqual([
      { kind: 'cell', text: 'cell a' },
      { kind: 'place', text: '@@ -7 +7 @@', line: 7 },
      // Lines of the text, though they look like names of files.
      { kind: 'removed', text: '--- x' },
      { kind: 'added', text: '+++ y' },
      { kind: 'cell', text: 'cell b' },
      { kind: 'added', text: '+z' }
    ]);
  });

  it('shows the head of a long diff and counts the rest', () => {
    const { lines, more } = diffLines('+x\n'.repeat(MOST_LINES + 7));
    expect(lines.length).toBe(MOST_LINES);
    expect(more).toBe(7);
  });

  it('counts down to zero', () => {
    const now = Date.parse('2026-01-01T00:00:00Z');
    expect(secondsLeft('2026-01-01T00:01:00.200Z', now)).toBe(61);
    expect(secondsLeft('2025-01-01T00:00:00Z', now)).toBe(0);
    expect(secondsLeft('soon', now)).toBeNull();
    expect(secondsLeft(undefined, now)).toBeNull();
  });
});

describe('canRevert', () => {
  const answer = (status: string, runId: string | null = 'r'): IAnswer =>
    readRole('markdown', {
      isOutputCell: true,
      promptCellId: 'p',
      author: 'ada',
      status,
      runId
    }) as IAnswer;

  it('is for ended runs of the person who looks', () => {
    expect(canRevert(answer('done'), 'ada', ['revert'])).toBe(true);
    expect(canRevert(answer('interrupted'), 'ada', ['revert'])).toBe(true);
    expect(canRevert(answer('done'), 'bob', ['revert'])).toBe(false);
    expect(canRevert(answer('done'), null, ['revert'])).toBe(false);
    expect(canRevert(answer('running'), 'ada', ['revert'])).toBe(false);
    expect(canRevert(answer('done', null), 'ada', ['revert'])).toBe(false);
    expect(canRevert(answer('done'), 'ada', [])).toBe(false);
  });
});
