import { Signal } from '@lumino/signaling';
import { act, type JSX } from 'react';
import { createRoot } from 'react-dom/client';
import { SlurmError } from '../../server';
import type { ISlurmModel } from '../../tokens';
import type { Job } from '../../wire';
import { ExecutedCopies } from '../executed';
import { PAUSE_MS, useLatest } from '../latest';
import { Memory } from '../memory';
import { NO_WISHES } from '../form';
import { Sender } from '../sending';

describe('a check of the input', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  test('is sent after a pause, one at a time, and only the latest answer is applied', async () => {
    const asked: string[] = [];
    const answers: ((answer: string) => void)[] = [];
    const ask = (question: string): Promise<string> => {
      asked.push(question);
      return new Promise(resolve => answers.push(resolve));
    };
    const Asking = ({ question }: { question: string }): JSX.Element => (
      <>{useLatest(ask, question)}</>
    );
    const host = document.createElement('div');
    const root = createRoot(host);
    const typed = async (question: string, ms: number): Promise<void> => {
      act(() => root.render(<Asking question={question} />));
      await act(async () => {
        await jest.advanceTimersByTimeAsync(ms);
      });
    };
    for (const key of ['a', 'ab', 'abc']) {
      await typed(key, PAUSE_MS - 1);
    }
    expect(asked).toEqual([]);
    await typed('abc', 1);
    expect(asked).toEqual(['abc']);
    await typed('abcd', 10 * PAUSE_MS);
    expect(asked).toEqual(['abc']);
    answers[0]?.('stale');
    await typed('abcd', PAUSE_MS);
    expect([asked, host.textContent]).toEqual([['abc', 'abcd'], '']);
    answers[1]?.('new');
    await typed('abcd', 0);
    expect(host.textContent).toBe('new');
    act(() => root.unmount());
  });
});

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

class FakeModel {
  readonly jobs = new Map<string, Job>();
  readonly changed = new Signal<this, void>(this);
  readonly calls: [string, Record<string, unknown>][] = [];
  answer: (name: string) => unknown = () => ({});

  watchJobs(): void {
    // A request is sent only for a question.
  }

  call(name: string, args: Record<string, unknown>): Promise<unknown> {
    this.calls.push([name, args]);
    return Promise.resolve(name).then(this.answer);
  }

  callLoggedIn(_: string, name: string, args: Record<string, unknown>): Promise<unknown> {
    return this.call(name, args);
  }

  get asModel(): ISlurmModel {
    return this as unknown as ISlurmModel;
  }
}

const failing = (code: string, transient = false): SlurmError =>
  new SlurmError({ code, message: code, hint: null, detail: null, option: null, transient }, 500);

describe('a submission', () => {
  beforeAll(() => {
    Object.defineProperty(globalThis, 'crypto', {
      value: { getRandomValues: (bytes: Uint8Array) => bytes.map(() => Math.random() * 256) },
      configurable: true
    });
  });

  test('is retried under its own ID, and the next submission gets a new ID', async () => {
    const model = new FakeModel();
    const sender = new Sender(model.asModel);
    model.answer = () => {
      throw failing('server-unreachable', true);
    };
    const what = { path: 'a.py' };
    await expect(sender.submit('here', '', what)).rejects.toThrow('unreachable');
    model.answer = () => ({});
    await sender.submit('here', '', what);
    await sender.submit('here', '', what);
    const ids = model.calls.map(([, args]) => args.id);
    expect(ids[0]).toMatch(/^[a-z2-7]{8}$/);
    expect(ids[1]).toBe(ids[0]);
    expect(ids[2]).not.toBe(ids[0]);
  });
});

describe('executed copies', () => {
  const job = (more: Partial<Job> = {}): Job =>
    ({
      id: 'aaaaaaaa',
      kind: 'cell',
      state: 'COMPLETED',
      session: null,
      fingerprint: null,
      notebook: '/lab/x.ipynb',
      delivered: false,
      ...more
    }) as Job;
  const locks = { request: (_: string, __: unknown, does: (lock: object) => unknown) => does({}) };
  const told = { written: jest.fn(), failed: jest.fn() };

  beforeAll(() => {
    Object.defineProperty(navigator, 'locks', { value: locks, configurable: true });
  });
  beforeEach(() => jest.resetAllMocks());

  test('are fetched once, when the job has ended, unless already delivered', async () => {
    const model = new FakeModel();
    model.answer = () => ({ path: 'x.slurm-1.ipynb' });
    model.jobs.set('bbbbbbbb', job({ id: 'bbbbbbbb', delivered: true }));
    model.jobs.set('aaaaaaaa', job({ state: 'RUNNING' }));
    new ExecutedCopies(model.asModel, told).begin();
    expect(model.calls).toEqual([]);
    model.jobs.set('aaaaaaaa', job());
    model.changed.emit();
    model.changed.emit();
    await Promise.resolve();
    await Promise.resolve();
    expect(model.calls).toEqual([['executed', { job_id: 'aaaaaaaa' }]]);
    expect(told.written.mock.calls).toEqual([[job(), 'x.slurm-1.ipynb']]);
  });
});

test('the last choice is remembered for each cluster, without name and environment', async () => {
  const kept = new Map<string, unknown>();
  const state = {
    fetch: (key: string) => Promise.resolve(kept.get(key)),
    save: (key: string, value: unknown) => Promise.resolve(kept.set(key, value))
  } as never;
  const memory = new Memory(state);
  await memory.keep({ ...NO_WISHES, cluster: 'here', gpus: '2', name: 'mine', env: 'A=1' });
  await memory.keep({ ...NO_WISHES, cluster: 'there', time: '5m' });
  const other = new Memory(state);
  await other.read();
  expect(other.last).toBe('there');
  expect(other.of('here')).toEqual({ ...NO_WISHES, cluster: 'here', gpus: '2' });
  expect(other.of('new')).toEqual({ ...NO_WISHES, cluster: 'new' });
  kept.set('jupyter-slurm:wishes', { last: 'x', by: { x: { gpus: 7, evil: 'y' } } });
  await other.read();
  expect(other.of('x')).toEqual({ ...NO_WISHES, cluster: 'x' });
  kept.set('jupyter-slurm:wishes', 'nonsense');
  await other.read();
  expect(other.last).toBe('x');
});
