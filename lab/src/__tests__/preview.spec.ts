import type { IContextReport } from '../contextWire';
import { RunError } from '../errors';
import { Preview, QUIET } from '../preview';

interface IAsked {
  resolve: (report: IContextReport) => void;
  reject: (reason: unknown) => void;
}

const report = (used: number): IContextReport =>
  ({ used }) as unknown as IContextReport;

describe('a preview', () => {
  let asked: IAsked[];
  let preview: Preview;

  beforeEach(() => {
    jest.useFakeTimers();
    asked = [];
    preview = new Preview(
      () =>
        new Promise((resolve, reject) => {
          asked.push({ resolve, reject });
        })
    );
  });

  afterEach(() => {
    preview.dispose();
    jest.useRealTimers();
  });

  const settle = (): Promise<void> => jest.advanceTimersByTimeAsync(0);

  it('asks nothing while nobody looks', async () => {
    preview.invalidate();
    await jest.advanceTimersByTimeAsync(10 * QUIET);
    expect(asked).toHaveLength(0);
    expect(preview.state.kind).toBe('idle');
  });

  it('asks once for many changes, when they are over', async () => {
    preview.wanted = true;
    asked[0].resolve(report(1));
    await settle();
    for (let change = 0; change < 20; change++) {
      preview.invalidate();
      await jest.advanceTimersByTimeAsync(QUIET / 2);
    }
    expect(asked).toHaveLength(1);
    expect(preview.state).toMatchObject({
      kind: 'checking',
      report: { used: 1 }
    });
    await jest.advanceTimersByTimeAsync(QUIET);
    expect(asked).toHaveLength(2);
  });

  it('never shows what was asked before a change', async () => {
    preview.wanted = true;
    preview.invalidate();
    asked[0].resolve(report(1));
    await settle();
    expect(preview.state.report).toBeNull();
    await jest.advanceTimersByTimeAsync(QUIET);
    asked[1].resolve(report(2));
    await settle();
    expect(preview.state).toMatchObject({ kind: 'ready', report: { used: 2 } });
  });

  it('takes the newest of answers that come in another order', async () => {
    preview.wanted = true;
    void preview.check();
    asked[1].resolve(report(2));
    await settle();
    asked[0].resolve(report(1));
    await settle();
    expect(preview.state.report).toEqual({ used: 2 });
  });

  it('says why it failed and keeps what it knew', async () => {
    preview.wanted = true;
    asked[0].resolve(report(1));
    await settle();
    void preview.check();
    asked[1].reject(
      new RunError({ code: 'kernel-busy', message: 'The kernel is busy.' })
    );
    await settle();
    expect(preview.state).toMatchObject({
      kind: 'failed',
      problem: 'The kernel is busy.',
      report: { used: 1 }
    });
  });

  it('forgets the report of another question', async () => {
    preview.wanted = true;
    asked[0].resolve(report(1));
    await settle();
    preview.reset();
    expect(preview.state.report).toBeNull();
    await jest.advanceTimersByTimeAsync(QUIET);
    expect(asked).toHaveLength(2);
  });

  it('is idle while there is no question', async () => {
    const none = new Preview(() => null);
    none.wanted = true;
    await settle();
    expect(none.state.kind).toBe('idle');
    none.dispose();
  });

  it('drops what comes when nobody looks any more', async () => {
    preview.wanted = true;
    preview.wanted = false;
    asked[0].resolve(report(1));
    await settle();
    expect(preview.state).toMatchObject({ kind: 'idle', report: null });
  });
});
