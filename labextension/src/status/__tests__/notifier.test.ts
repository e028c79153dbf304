import { Notification } from '@jupyterlab/apputils';
import type { IStateDB } from '@jupyterlab/statedb';
import { CommandRegistry } from '@lumino/commands';
import { FakeModel, job } from '../../__tests__/fakes';
import type { Job } from '../../wire';
import { Notifier } from '../notifier';
import { notifySettings } from '../settings';

beforeEach(() => {
  jest.useFakeTimers();
  Notification.dismiss();
});

afterEach(() => jest.useRealTimers());

function notified(values: Record<string, boolean | string | string[]> = {}): FakeModel {
  return both(values)[0];
}

function both(values: Record<string, boolean | string | string[]> = {}): [FakeModel, Notifier] {
  const model = new FakeModel();
  const notifier = new Notifier(model, new CommandRegistry(), null);
  notifier.follow(notifySettings(values));
  return [model, notifier];
}

function shown(): [string, string, number | false | undefined][] {
  jest.advanceTimersByTime(5_000);
  return Notification.manager.notifications.map(one => [
    one.type,
    one.message,
    one.options.autoClose
  ]);
}

test('a job has one notification, updated from its start to its end', () => {
  const model = notified();
  model.put(job({ state: 'PENDING' }));
  expect(shown()).toEqual([]);
  model.put(job({ state: 'RUNNING' }));
  expect(shown()).toEqual([['info', 'fit: running', 6_000]]);
  model.put(job({ state: 'COMPLETED' }));
  expect(shown()).toEqual([['success', 'fit: done', 6_000]]);
});

test('a refused job causes a notification only long after its submission', () => {
  const model = notified();
  const created_s = job().created_s;
  model.put(job({ state: 'SUBMITTING', started_s: null }));
  model.put(job({ state: 'REJECTED', started_s: null, ended_s: created_s + 2 }));
  expect(shown()).toEqual([]);
  model.put(job({ id: 'late', state: 'SUBMITTING', started_s: null }));
  model.put(job({ id: 'late', state: 'REJECTED', started_s: null, ended_s: created_s + 600 }));
  expect(shown()).toEqual([['error', 'fit: refused', 20_000]]);
});

test('a muted job stays muted after a reload', async () => {
  const saved = new Map<string, unknown>();
  const state = {
    fetch: (key: string) => Promise.resolve(saved.get(key)),
    save: (key: string, value: unknown) => Promise.resolve(saved.set(key, value))
  } as unknown as IStateDB;
  const fresh = async (): Promise<[FakeModel, Notifier]> => {
    const model = new FakeModel();
    const notifier = new Notifier(model, new CommandRegistry(), null, state);
    await notifier.recall();
    notifier.follow(notifySettings({}));
    model.put(job({ state: 'RUNNING' }));
    return [model, notifier];
  };
  const [, before] = await fresh();
  before.mute(job().id);
  const [model] = await fresh();
  model.put(job({ state: 'COMPLETED' }));
  expect(shown()).toEqual([]);
});

test('a failure shows its reason, and stays for longer', () => {
  const model = notified({ notifyEnd: 'failed', notifyStart: false });
  model.put(job({ state: 'PENDING' }));
  model.put(job({ state: 'RUNNING' }));
  model.put(job({ state: 'FAILED', why: 'It raised\nValueError.' }));
  expect(shown()).toEqual([['error', 'fit: failed. It raised ValueError.', 20_000]]);
});

test('settings limit notifications to failures, to none, or to the list', () => {
  for (const [values, count] of [
    [{ notifyEnd: 'failed' }, 0],
    [{ notifyEnd: 'never' }, 0],
    [{ quiet: true }, 1]
  ] as const) {
    const model = notified(values);
    model.put(job({ state: 'RUNNING' }));
    model.put(job({ state: 'COMPLETED' }));
    expect(shown()).toHaveLength(count);
  }
  expect(shown()[0]?.[2]).toBe(0);
});

test('an ended array causes one notification', () => {
  const model = notified();
  const ids = Array.from({ length: 50 }, (_, at) => `aaaaaa${at + 10}`);
  for (const id of ids) {
    model.put(job({ id }));
  }
  for (const id of ids) {
    model.put(job({ id, state: id.endsWith('1') ? 'FAILED' : 'COMPLETED' }));
  }
  expect(shown()).toEqual([['error', '50 jobs have ended, 5 of them failed: fit', 20_000]]);
  document.documentElement.lang = 'ja';
  model.put(job({ id: 'another', state: 'RUNNING' }));
  model.put(job({ id: 'another', state: 'COMPLETED' }));
  expect(shown()).toEqual([['error', '51 jobs have ended、5 of them failed: fit', 20_000]]);
  document.documentElement.lang = '';
});

test('jobs that all failed are named', () => {
  const model = notified();
  for (const [id, name] of [
    ['aaaaaaaa', 'A'],
    ['bbbbbbbb', 'B']
  ] as const) {
    model.put(job({ id, name, state: 'RUNNING' }));
    model.put(job({ id, name, state: 'FAILED' }));
  }
  expect(shown().at(-1)).toEqual(['error', '2 jobs failed: A, B', 20_000]);
});

test('a hidden tab watches jobs only for browser notifications', () => {
  expect(notified().watchers).toEqual([{ background: false }]);
  expect(notified({ browserNotifications: true }).watchers).toEqual([{ background: true }]);
  expect(notified({ notifyStart: false, notifyEnd: 'never' }).watchers).toEqual([]);
});

test("a job in the user's view does not cause a notification", () => {
  const model = notified();
  model.watchJob('k3j9x2m1');
  model.put(job({ id: 'k3j9x2m1', state: 'RUNNING' }));
  model.put(job({ id: 'k3j9x2m1', state: 'FAILED' }));
  model.put(job({ id: 'bbbbbbbb', state: 'RUNNING', name: 'other' }));
  model.put(job({ id: 'bbbbbbbb', state: 'COMPLETED', name: 'other' }));
  expect(shown().map(([, message]) => message)).toEqual(['other: done']);
});

test('muted jobs and kinds do not cause a notification', () => {
  const [model, notifier] = both({ mutedKinds: ['lab'] });
  model.put(job({ id: 'aaaaaaaa', state: 'PENDING' }));
  model.put(job({ id: 'aaaaaaaa', state: 'RUNNING' }));
  expect(shown()).toHaveLength(1);
  const [start] = Notification.manager.notifications;
  expect(start?.options.actions?.map(({ label }) => label)).toEqual(['Show log', 'Mute this job']);
  notifier.mute('aaaaaaaa');
  model.put(job({ id: 'aaaaaaaa', state: 'COMPLETED' }));
  const lab = { ...job({ id: 'bbbbbbbb' }), kind: 'lab' } as Job;
  model.put(lab);
  model.put({ ...lab, state: 'COMPLETED' });
  expect(shown()).toEqual([]);
});
