/**
 * The golden examples of tests/contract, which the server's own tests compare with what it really
 * says: the readers of this plugin take them.
 *
 * @jest-environment node
 */
import { readFileSync } from 'fs';
import { join } from 'path';

import { secondsLeft } from '../approval';
import { chosenConnection, effortsOf, readDefaults } from '../connections';
import { CONTEXT_MODES, OUTPUTS_CHOICES } from '../contextWire';
import type { IContextReport } from '../contextWire';
import { RunError } from '../errors';
import { presenceOf } from '../presence';
import { canContinue, isRunning, readRole } from '../promptModel';
import type { IAnswer } from '../promptModel';
import { serverMode, TOOL_GROUPS } from '../toolApproval';
import { steps } from '../transcript';
import { isActive, modelsOf } from '../wire';
import type {
  IKeys,
  IRun,
  IRunAccepted,
  IRunEvents,
  IServerStatus
} from '../wire';

const FOLDER = join(__dirname, '..', '..', '..', 'tests', 'contract');

function golden(file: string): Record<string, unknown> {
  return JSON.parse(readFileSync(join(FOLDER, `${file}.json`), 'utf8'));
}

const runs = golden('run');

describe('a run', () => {
  it('is known by its id, and goes on until its status says so', () => {
    const accepted = runs.accepted as IRunAccepted;
    const waiting = runs.waiting as IRun;
    const done = runs.done as IRun;
    expect(waiting.run_id).toBe(accepted.run_id);
    expect(waiting.answer_cell_id).toBe(accepted.answer_cell_id);
    expect([accepted, waiting, done].map(run => isActive(run.status))).toEqual([
      true,
      true,
      false
    ]);
    expect([waiting.live, done.live]).toEqual([true, false]);
  });

  it('says what it asks for, and until when', () => {
    const [asked] = (runs.waiting as IRun).approvals ?? [];
    const before = Date.parse('2026-01-01T10:04:00Z');
    expect(asked.answer).toBeNull();
    expect(secondsLeft(asked.expires_at, before)).toBe(60);
    expect((runs.done as IRun).approvals?.[0].answer).toBe('allowed');
  });

  it('that failed says why', () => {
    expect((runs.failed as IRun).error).toMatchObject({
      code: 'not-authenticated'
    });
  });
});

describe('the events of a run', () => {
  it('make a transcript, and go on where they ended', () => {
    const { page, rest } = golden('events') as Record<string, IRunEvents>;
    expect(page.events.map(each => each.seq)).toEqual(
      page.events.map((_, index) => index + 1)
    );
    expect(page.last_seq).toBe(page.events.length);
    expect(rest).toMatchObject({ events: [], last_seq: page.last_seq });
    expect(steps(page.events)).toEqual([
      expect.objectContaining({
        callId: 'call_0',
        name: 'cell_str_replace',
        cellIds: ['code'],
        outcome: 'ok',
        seconds: 0.038
      })
    ]);
  });
});

describe('cells', () => {
  const cells = golden('document');

  it('are questions and answers', () => {
    expect(readRole('markdown', cells.question)).toMatchObject({
      kind: 'prompt',
      backend: null
    });
    const waiting = readRole('markdown', cells.waiting) as IAnswer;
    expect(waiting).toMatchObject({
      kind: 'answer',
      promptId: 'p0',
      status: 'running',
      approvalId: 'approval-1',
      connection: 'openai_api'
    });
    expect(isRunning(waiting)).toBe(true);
    const done = readRole('markdown', cells.done) as IAnswer;
    expect(done).toMatchObject({ status: 'done', hasInputs: true });
    expect(done.approvalId).toBeNull();
    const failed = readRole('markdown', cells.failed) as IAnswer;
    expect(failed.error?.code).toBe('not-authenticated');
    expect([canContinue(done), canContinue(failed)]).toEqual([false, true]);
  });

  it('show the agent where it works', () => {
    expect(presenceOf([{}, cells.presence], 'run-1')).toMatchObject({
      runId: 'run-1',
      name: 'AI agent',
      color: '#8e24aa',
      status: 'waiting-approval'
    });
    expect(presenceOf([cells.presence], 'run-2')).toBeNull();
  });
});

describe('what the server offers', () => {
  const { status, keys } = golden('status') as {
    status: IServerStatus;
    keys: IKeys;
  };

  it('is read', () => {
    const chosen = chosenConnection(status, null, readDefaults(undefined));
    expect(chosen?.id).toBe('openai_api');
    expect(modelsOf(status.connections.openai_api).map(({ id }) => id)).toEqual(
      ['gpt-6.2-sol', 'gpt-6-luna']
    );
    expect(effortsOf(status.connections.openai_api, 'gpt-6.2-sol')).toContain(
      'high'
    );
    expect(keys.default_connection).toBe(status.default_connection);
  });

  it('has a mode for every group of tools that may be chosen', () => {
    const modes = status.policy?.tool_approval ?? {};
    for (const group of TOOL_GROUPS) {
      expect(serverMode(modes[group])).toBe(modes[group]);
    }
  });
});

describe('a preview', () => {
  it('speaks of modes and outputs that are known', () => {
    const report = golden('preview').report as IContextReport;
    expect(CONTEXT_MODES).toContain(report.mode);
    expect(OUTPUTS_CHOICES).toContain(report.outputs);
    expect(report.used).toBeLessThan(report.allowed);
  });
});

describe('a refusal', () => {
  const refusals = Object.entries(golden('errors')) as [
    string,
    { http: number; body: unknown }
  ][];

  it.each(refusals)('%s keeps its code', (code, { http, body }) => {
    const read = RunError.fromResponse(http, JSON.stringify(body), {
      code: 'server-error',
      message: 'It failed.'
    });
    expect(read.code).toBe(code);
    expect(read.retryable).toBe(code === 'not-caught-up');
    expect(read.runId).toBe(code === 'run-active' ? 'run-1' : null);
    expect(read.message).not.toBe('It failed.');
  });
});
