import { Notification } from '@jupyterlab/apputils';
import type { IStateDB } from '@jupyterlab/statedb';
import { CommandRegistry } from '@lumino/commands';
import { FakeModel, job } from '../../__tests__/fakes';
import type { Job } from '../../wire';
import { kindOf, Notifier } from '../notifier';
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

test('one notification a job, changed in place from its start to its end', () => {
  const model = notified();
  model.put(job({ state: 'PENDING' }));
  expect(shown()).toEqual([]);
  model.put(job({ state: 'RUNNING' }));
  expect(shown()).toEqual([['info', 'fit: running', 6_000]]);
  model.put(job({ state: 'COMPLETED' }));
  expect(shown()).toEqual([['success', 'fit: done', 6_000]]);
});

test('a refused job makes a notification only if nobody waits for its submission any more', () => {
  const model = notified();
  const created_s = job().created_s;
  model.put(job({ state: 'SUBMITTING', started_s: null }));
  model.put(job({ state: 'REJECTED', started_s: null, ended_s: created_s + 2 }));
  expect(shown()).toEqual([]);
  model.put(job({ id: 'late', state: 'SUBMITTING', started_s: null }));
  model.put(job({ id: 'late', state: 'REJECTED', started_s: null, ended_s: created_s + 600 }));
  expect(shown()).toEqual([['error', 'fit: refused', 20_000]]);
});

test('what JupyterLab has drawn is changed in place, and what it has not is put anew', () => {
  const model = notified();
  const ids = (): string[] => Notification.manager.notifications.map(({ id }) => id);
  model.put(job({ state: 'PENDING' }));
  model.put(job({ state: 'RUNNING' }));
  jest.advanceTimersByTime(500);
  const [first] = ids();
  model.put(job({ state: 'SUSPENDED' }));
  model.put(job({ id: 'another0', state: 'PENDING' }));
  model.put(job({ id: 'another0', state: 'RUNNING' }));
  jest.advanceTimersByTime(500);
  const [second, ...more] = ids();
  expect(more).toEqual([]);
  expect(second).not.toBe(first);
  const toast = document.body.appendChild(document.createElement('div'));
  toast.id = second ?? '';
  model.put(job({ id: 'another0', state: 'COMPLETED' }));
  jest.advanceTimersByTime(500);
  expect(ids()).toEqual([second]);
  toast.remove();
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

test('a failure is told once: of the reason what the state does not say', () => {
  const model = notified();
  const why = { text: 'Failed (exit code {exit_code}).', args: { exit_code: '3' } };
  model.put(job({ state: 'RUNNING' }));
  model.put(job({ state: 'FAILED', exit_code: 3, why }));
  expect(shown().map(([, message]) => message)).toEqual(['fit: failed · exit code 3']);
});

test('what went wrong says why, and stays for longer', () => {
  const model = notified({ notifyEnd: 'failed', notifyStart: false });
  model.put(job({ state: 'PENDING' }));
  model.put(job({ state: 'RUNNING' }));
  model.put(job({ state: 'FAILED', why: 'It raised\nValueError.' }));
  expect(shown()).toEqual([['error', 'fit: failed. It raised ValueError.', 20_000]]);
});

test('only what is wanted is told: not a good end, nothing at all, nothing over the page', () => {
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

test('an array that ends is one notification', () => {
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

test('of 300 jobs that end one after the other one notification is seen at a time', () => {
  const model = notified();
  const ids = Array.from({ length: 300 }, (_, at) => `aaaaa${at + 100}`);
  for (const id of ids) {
    model.put(job({ id }));
  }
  for (const id of ids) {
    model.put(job({ id, state: 'COMPLETED' }));
    jest.advanceTimersByTime(400);
  }
  expect(shown()).toEqual([['info', '300 jobs have ended', 6_000]]);
  jest.advanceTimersByTime(6_000);
  model.put(job({ id: ids[0] ?? '' }));
  model.put(job({ id: 'one', state: 'RUNNING' }));
  model.put(job({ id: 'one', state: 'TIMEOUT', name: 'late' }));
  expect(shown().map(([, message]) => message)).toEqual(['late: timed out', '300 jobs have ended']);
});

test('other news has a notification of its own, which jobs that end leave alone', () => {
  const [model, notifier] = both({ notifyStart: false });
  const lead = { label: 'New notebook', command: 'new', args: {} };
  model.put(job());
  notifier.say('Kernel "one" is ready', lead);
  notifier.say('Kernel "two" is ready', lead);
  model.put(job({ state: 'FAILED', exit_code: 65 }));
  expect(shown()).toEqual([
    ['error', 'fit: failed · exit code 65', 20_000],
    ['success', 'Kernel "two" is ready', 6_000],
    ['success', 'Kernel "one" is ready', 6_000]
  ]);
  const labels = Notification.manager.notifications.map(({ options }) =>
    options.actions?.map(({ label }) => label)
  );
  expect(labels).toEqual([['Show log'], ['New notebook'], ['New notebook']]);
});

test.each(['before', 'after'])(
  'the copy of a notebook takes the place of the end of its job, unless that failed (%s it)',
  order => {
    for (const [state, messages] of [
      ['COMPLETED', ['fit has been run']],
      ['FAILED', ['fit has been run', 'fit: failed']]
    ] as const) {
      Notification.dismiss();
      const [model, notifier] = both({ notifyStart: false });
      const steps = [
        () => notifier.say('fit has been run', null, job().id),
        () => model.put(job({ state }))
      ];
      model.put(job());
      for (const step of order === 'before' ? steps : steps.reverse()) {
        step();
        jest.advanceTimersByTime(300);
      }
      expect(
        shown()
          .map(([, told]) => told)
          .sort()
      ).toEqual(messages);
    }
  }
);

test('it listens while the tab is hidden only for notifications of the browser', () => {
  expect(notified().watchers).toEqual([{ background: false }]);
  expect(notified({ browserNotifications: true }).watchers).toEqual([{ background: true }]);
  expect(notified({ notifyStart: false, notifyEnd: 'never' }).watchers).toEqual([]);
});

test('a start is that of one that waited', () => {
  const running = job({ state: 'RUNNING' });
  expect(kindOf(running, 'PENDING')).toBe('start');
  expect(kindOf(running, 'CONFIGURING')).toBe('start');
  expect(kindOf(running, 'UNKNOWN')).toBeNull();
  expect(kindOf(running, 'SUSPENDED')).toBeNull();
  expect(kindOf(job({ state: 'LOST' }), 'RUNNING')).toBe('end');
  expect(kindOf(job({ state: 'COMPLETED' }), 'CANCELLED')).toBeNull();
});

test('nothing is told of a job that somebody looks at', () => {
  const model = notified();
  model.watchJob('k3j9x2m1');
  model.put(job({ id: 'k3j9x2m1', state: 'RUNNING' }));
  model.put(job({ id: 'k3j9x2m1', state: 'FAILED' }));
  model.put(job({ id: 'bbbbbbbb', state: 'RUNNING', name: 'other' }));
  model.put(job({ id: 'bbbbbbbb', state: 'COMPLETED', name: 'other' }));
  expect(shown().map(([, message]) => message)).toEqual(['other: done']);
});

test('nothing is told of a job that is muted, nor of a kind that is', () => {
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

test('of many that end over minutes five notifications are listed at most', () => {
  const model = notified();
  for (let at = 100; at < 130; at++) {
    model.put(job({ id: `aaaaa${at}` }));
    model.put(job({ id: `aaaaa${at}`, state: 'COMPLETED' }));
    jest.advanceTimersByTime(10_000);
  }
  expect(shown()).toHaveLength(5);
});
