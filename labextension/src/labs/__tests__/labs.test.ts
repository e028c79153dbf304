// Labs in the browser: the time of a lab's end, its row, and the warnings before it ends.
import { Notification } from '@jupyterlab/apputils';
import { FakeModel, job, NOW_S } from '../../__tests__/fakes';
import { endsOf } from '../../ends';
import { actionsOf } from '../../sidebar/menu';
import { facts } from '../../sidebar/hover_words';
import { CommandIDs } from '../../tokens';
import type { Job } from '../../wire';
import { Warnings } from '../../warnings';
import { dashboardsOf } from '../dashboards';
import { endingSoon, isLab } from '../words';

function lab(fields: Partial<Job> = {}): Job {
  const place = {
    url: 'http://lab-a2b4c6d7.localhost:4000/',
    port: 4000,
    base_url: '/',
    step: 'ready'
  } as const;
  return job({ kind: 'lab', name: 'mine', lab: place, idle_s: 3600, ...fields });
}

test('a lab ends at its time limit or idle timeout, whichever is first', () => {
  expect(endsOf(lab())).toBe(NOW_S - 125 + 3600);
  expect(endsOf(lab({ idle_since_s: NOW_S - 1800 }))).toBe(NOW_S + 1800);
  expect(endsOf(lab({ limit_s: null }))).toBeNull();
  expect(endsOf(lab({ state: 'PENDING' }))).toBeNull();
  expect(endsOf(job())).toBeNull();
});

test("a row shows a lab's start, then its remaining time, and opens the lab", () => {
  expect(facts(lab(), NOW_S)).toEqual(['lab', 'ends in 57 min 55 s']);
  const starting = lab({ lab: { url: '', port: 1, base_url: '/', step: 'starting' } });
  expect(facts(starting, NOW_S)).toContain('JupyterLab is starting.');
  expect(actionsOf(lab())).toEqual([CommandIDs.openLab, CommandIDs.copyLabLink, CommandIDs.cancel]);
});

test("a running job has a button for its engine's dashboard, and for TensorBoard if requested", () => {
  expect(dashboardsOf(job())).toEqual([]);
  expect(dashboardsOf(job({ launch: 'torchrun' }))).toEqual([]);
  expect(dashboardsOf(job({ launch: 'dask' }))).toEqual(['dask']);
  expect(dashboardsOf(job({ launch: 'ray', tensorboard: 'logs' }))).toEqual(['ray', 'tensorboard']);
  expect(dashboardsOf(job({ launch: 'ray', state: 'COMPLETED' }))).toEqual([]);
  expect(dashboardsOf(job({ kind: 'session', launch: 'ray' }))).toEqual(['ray']);
});

describe('warnings', () => {
  let shown: jest.SpyInstance;

  beforeEach(() => {
    jest.useFakeTimers();
    shown = jest.spyOn(Notification, 'warning').mockReturnValue('one');
  });

  afterEach(() => {
    jest.useRealTimers();
    shown.mockRestore();
  });

  test('are shown once before each end', () => {
    const model = new FakeModel();
    let nowS = NOW_S;
    const act = jest.fn();
    const told = (one: Job, left: string): string => endingSoon(one, left);
    new Warnings(model, { is: isLab, told, label: 'Open', act }, null, () => nowS);
    model.put(lab({ limit_s: 525 }));
    jest.advanceTimersByTime(20_000);
    expect(shown).not.toHaveBeenCalled();
    nowS += 101;
    jest.advanceTimersByTime(60_000);
    expect(shown).toHaveBeenCalledTimes(1);
    const last = 'The lab mine ends in 4 min 59 s. Save your work.';
    expect(shown).toHaveBeenNthCalledWith(1, last, expect.anything());
    model.put(lab({ limit_s: null, idle_since_s: nowS - 3400 }));
    jest.advanceTimersByTime(60_000);
    expect(shown).toHaveBeenCalledTimes(2);
    const idle = 'The lab mine ends in 3 min 20 s because it is idle.';
    expect(shown).toHaveBeenNthCalledWith(2, idle, expect.anything());
  });
});
