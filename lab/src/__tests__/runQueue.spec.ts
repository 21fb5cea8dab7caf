import { RunQueue } from '../runQueue';

interface IStep {
  run: () => Promise<boolean>;
  started: () => boolean;
  end: (success: boolean) => void;
  fail: (reason: Error) => void;
}

function step(): IStep {
  let started = false;
  let resolve!: (success: boolean) => void;
  let reject!: (reason: Error) => void;
  const done = new Promise<boolean>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return {
    run: () => {
      started = true;
      return done;
    },
    started: () => started,
    end: resolve,
    fail: reject
  };
}

/** Let everything that can go on go on. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) {
    await Promise.resolve();
  }
}

describe('RunQueue', () => {
  it('gives code to the kernel at once, as JupyterLab does', () => {
    const queue = new RunQueue();
    const cells = [step(), step(), step()];
    cells.forEach(cell => queue.add('code', cell.run));
    expect(cells.map(cell => cell.started())).toEqual([true, true, true]);
  });

  it('runs prompts and code of a command in order', async () => {
    const queue = new RunQueue();
    const [before, ask, between, next, after] = Array.from({ length: 5 }, step);
    queue.add('code', before.run);
    queue.add('prompt', ask.run);
    queue.add('code', between.run);
    queue.add('prompt', next.run);
    const last = queue.add('code', after.run);
    const started = (): boolean[] =>
      [before, ask, between, next, after].map(cell => cell.started());

    await settle();
    expect(started()).toEqual([true, false, false, false, false]);
    before.end(true);
    await settle();
    expect(started()).toEqual([true, true, false, false, false]);
    ask.end(true);
    await settle();
    expect(started()).toEqual([true, true, true, false, false]);
    between.end(true);
    await settle();
    expect(started()).toEqual([true, true, true, true, false]);
    next.end(true);
    await settle();
    expect(started()).toEqual([true, true, true, true, true]);
    after.end(true);
    expect(await last.done).toBe(true);
  });

  it('stops the later cells of a command at a failed prompt, not another command', async () => {
    const queue = new RunQueue();
    const [ask, after, next] = [step(), step(), step()];
    const asked = queue.add('prompt', ask.run);
    const stopped = queue.add('code', after.run);
    const prompt = queue.add('prompt', next.run);
    await settle();
    const other = step();
    const kept = queue.add('code', other.run);
    expect(other.started()).toBe(false);

    ask.end(false);
    expect(await asked.done).toBe(false);
    expect(await stopped.done).toBe(false);
    expect(await prompt.done).toBe(false);
    await settle();
    expect([after.started(), next.started()]).toEqual([false, false]);
    expect(other.started()).toBe(true);
    other.end(true);
    expect(await kept.done).toBe(true);
  });

  it('does not ask after code has failed, and passes the failure on', async () => {
    const queue = new RunQueue();
    const [code, ask, after] = [step(), step(), step()];
    const failed = queue.add('code', code.run);
    const asked = queue.add('prompt', ask.run);
    const later = queue.add('code', after.run);
    code.fail(new Error('KernelReplyNotOK'));
    await expect(failed.done).rejects.toThrow('KernelReplyNotOK');
    expect(await asked.done).toBe(false);
    expect(await later.done).toBe(false);
    expect([ask.started(), after.started()]).toEqual([false, false]);
  });

  it('keeps the order of commands given one after the other', async () => {
    const queue = new RunQueue();
    const [ask, code] = [step(), step()];
    queue.add('prompt', ask.run);
    await settle();
    const second = queue.add('code', code.run);
    expect(second.waiting).toBe(true);
    ask.end(true);
    await settle();
    expect(code.started()).toBe(true);
    expect(second.waiting).toBe(false);
    const third = step();
    queue.add('code', third.run);
    expect(third.started()).toBe(true);
  });

  it('lets other cells pass', () => {
    const queue = new RunQueue();
    const [ask, text] = [step(), step()];
    queue.add('prompt', ask.run);
    queue.add('other', text.run);
    expect(text.started()).toBe(true);
  });

  it('asks at once when released', async () => {
    const queue = new RunQueue();
    const [code, ask] = [step(), step()];
    queue.add('code', code.run);
    const entry = queue.add('prompt', ask.run);
    expect(entry.waiting).toBe(true);
    entry.release();
    await settle();
    expect(ask.started()).toBe(true);
    ask.end(true);
    code.end(true);
    expect(await entry.done).toBe(true);
    expect(await Promise.resolve(entry.waiting)).toBe(false);
  });

  it('runs neither a withdrawn prompt nor what comes after it', async () => {
    const queue = new RunQueue();
    const [code, ask, after] = [step(), step(), step()];
    const first = queue.add('code', code.run);
    const entry = queue.add('prompt', ask.run);
    const later = queue.add('code', after.run);
    entry.withdraw();
    expect(await entry.done).toBe(false);
    expect(await later.done).toBe(false);
    code.end(true);
    expect(await first.done).toBe(true);
    expect([ask.started(), after.started()]).toEqual([false, false]);
  });

  it('takes an error thrown at once for a failure', async () => {
    const queue = new RunQueue();
    const entry = queue.add('code', () => {
      throw new Error('no kernel');
    });
    await expect(entry.done).rejects.toThrow('no kernel');
  });
});
