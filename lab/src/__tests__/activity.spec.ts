import {
  endedRuns,
  liveRuns,
  MOST_ENDED,
  NOTHING_YET,
  withPage
} from '../activity';
import type { IActivity } from '../activity';
import type { IActivityEvent, IPause } from '../activityWire';
import { editDiff } from '../transcript';

let seq = 100;

function event(
  type: string,
  data: Record<string, unknown> = {},
  run = 'r1'
): IActivityEvent {
  return {
    seq: ++seq,
    at: new Date(seq * 1000).toISOString(),
    type,
    run_id: run,
    path: 'a.ipynb',
    answer_cell_id: 'answer',
    author: { username: 'ada', display_name: 'Ada' },
    model: 'm',
    status: 'running-tool',
    data
  };
}

function after(before: IActivity, ...events: IActivityEvent[]): IActivity {
  return withPage(before, { events, last_seq: seq, gap: false });
}

describe('withPage', () => {
  it('follows a run from its calls to its end', () => {
    const called = event('tool-called', { name: 'read_cell', cell_id: 'c1' });
    let state = after(
      NOTHING_YET,
      event('status', { status: 'queued' }),
      called
    );
    expect(liveRuns(state)).toMatchObject([
      { runId: 'r1', doing: 'read_cell', cellId: 'c1', status: 'running-tool' }
    ]);
    expect(state.lastSeq).toBe(seq);
    state = after(state, event('progress', { text: 'cell 2 of 3' }));
    expect(liveRuns(state)[0].doing).toBe('cell 2 of 3');
    state = after(state, event('tool-finished', { name: 'read_cell' }));
    expect(liveRuns(state)[0]).toMatchObject({ doing: null, cellId: 'c1' });
    state = after(state, event('status', { status: 'streaming' }));
    expect(liveRuns(state)[0].cellId).toBeNull();
    state = after(state, event('status', { status: 'done' }));
    expect(liveRuns(state)).toEqual([]);
    expect(endedRuns(state)).toMatchObject([{ runId: 'r1', status: 'done' }]);
  });

  it('says what waits for a word', () => {
    const asks = event('approval', {
      tool: 'run_cell',
      answer: null,
      cell_id: 'c'
    });
    let state = after(NOTHING_YET, asks);
    expect(liveRuns(state)[0]).toMatchObject({ asks: 'run_cell', cellId: 'c' });
    state = after(
      state,
      event('approval', { tool: 'run_cell', answer: 'denied' })
    );
    expect(liveRuns(state)[0].asks).toBeNull();
  });

  it('begins anew with what stands, also after a gap', () => {
    const old = after(NOTHING_YET, event('tool-called', { name: 'x' }, 'gone'));
    const run = {
      run_id: 'r2',
      path: 'b.ipynb',
      prompt_cell_id: 'q',
      answer_cell_id: 'a',
      created_at: '2026-01-01T00:00:00Z'
    };
    const state = withPage(old, {
      events: [],
      last_seq: 7,
      gap: true,
      runs: [
        { ...run, status: 'streaming', live: true },
        // Nobody works on it any more.
        { ...run, run_id: 'r3', status: 'streaming', live: false }
      ],
      pauses: []
    });
    expect(liveRuns(state).map(each => each.runId)).toEqual(['r2']);
    expect(endedRuns(state)).toMatchObject([
      { runId: 'r3', status: 'interrupted' }
    ]);
    expect(state.lastSeq).toBe(7);
  });

  it('knows where AI is paused', () => {
    const pause: Partial<IPause> = { path: 'course', reason: 'exam' };
    const told = (type: string): IActivityEvent => ({
      seq: ++seq,
      at: '',
      type,
      data: pause
    });
    const paused = after(NOTHING_YET, told('paused'), told('paused'));
    expect(paused.pauses).toEqual([pause]);
    expect(after(paused, told('resumed')).pauses).toEqual([]);
  });

  it('forgets the oldest of many ended runs', () => {
    const events = Array.from({ length: MOST_ENDED + 9 }, (_, place) =>
      event('status', { status: 'done' }, `r${place}`)
    );
    const ended = endedRuns(after(NOTHING_YET, ...events));
    expect(ended.length).toBe(MOST_ENDED);
    expect(ended[0].runId).toBe(`r${MOST_ENDED + 8}`);
  });
});

describe('editDiff', () => {
  it('shows what goes and what comes', () => {
    const args = { cell_id: 'c', old_str: 'a\nb', new_str: 'c\n' };
    expect(editDiff('cell_str_replace', JSON.stringify(args))).toEqual([
      { kind: 'removed', text: '-a' },
      { kind: 'removed', text: '-b' },
      { kind: 'added', text: '+c' }
    ]);
    const replaced = { expected_source: 'old', new_source: 'new' };
    expect(editDiff('replace_cell', replaced)!.map(each => each.text)).toEqual([
      '-old',
      '+new'
    ]);
  });

  it('shows no hash, no whole text for a line, and nothing for a read', () => {
    const hashed = { expected_source: 'sha256:0123456789ab', new_source: 'n' };
    expect(editDiff('replace_cell', hashed)).toEqual([
      { kind: 'added', text: '+n' }
    ]);
    const line = { expected_source: 'long', line: 1, content: 'x' };
    expect(editDiff('cell_insert_line', line)).toEqual([
      { kind: 'added', text: '+x' }
    ]);
    expect(editDiff('run_code', { content: 'x' })).toBeNull();
    expect(editDiff('replace_cell', '{"new_source": "cut')).toBeNull();
    expect(editDiff('delete_cell', { cell_id: 'c' })).toBeNull();
  });
});
