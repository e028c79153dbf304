import { Notification } from '@jupyterlab/apputils';
import { FakeModel } from '../../__tests__/fakes';
import type { Action } from '../../wire';
import { ActionNews, ended } from '../actions';

beforeEach(() => {
  jest.useFakeTimers();
  Notification.dismiss();
});

afterEach(() => jest.useRealTimers());

function action(fields: Partial<Action> = {}): Action {
  return {
    id: 'a1',
    cluster: 'c',
    verb: 'cancel',
    state: 'running',
    jobs: 4800,
    done: 0,
    refused: 0,
    refusals: [],
    began_s: 1,
    ended_s: null,
    problem: null,
    ...fields
  };
}

/** A page, and what it asks of the agent. */
function page(): { tell: (...actions: Action[]) => void; asked: unknown[][] } {
  const asked: unknown[][] = [];
  const call = (name: string, args: unknown): Promise<void> => {
    asked.push([name, args]);
    return Promise.resolve();
  };
  const model = Object.assign(new FakeModel(), { call });
  new ActionNews(model, null);
  const tell = (...actions: Action[]): void => {
    model.actions = actions;
    model.changed.emit();
  };
  return { tell, asked };
}

function shown(): [string, string, number | undefined][] {
  jest.advanceTimersByTime(1_000);
  return Notification.manager.notifications.map(({ type, message, options }) => [
    type,
    message,
    options.progress
  ]);
}

test('one that goes on is one notification with its progress, which stops it', () => {
  const { tell, asked } = page();
  tell(action());
  expect(shown()).toEqual([['in-progress', 'Cancelling: 0 of 4,800', 0]]);
  tell(action({ done: 1200 }));
  expect(shown()).toEqual([['in-progress', 'Cancelling: 1,200 of 4,800', 0.25]]);
  const [stop] = Notification.manager.notifications[0]?.options.actions ?? [];
  stop?.callback(new MouseEvent('click'));
  expect(asked).toEqual([['stop_action', { action_id: 'a1' }]]);
});

test('its end is told once in place of its progress, and forgotten then', () => {
  const { tell, asked } = page();
  tell(action());
  shown();
  const end = action({ state: 'done', done: 4800 });
  tell(end);
  tell({ ...end });
  expect(shown()).toEqual([['success', '4,800 jobs cancelled', undefined]]);
  expect(asked).toEqual([['forget_action', { action_id: 'a1' }]]);
});

test('a page that was opened meanwhile tells the end, and nothing of one that is forgotten', () => {
  const { tell } = page();
  tell(action({ verb: 'hold', state: 'done', done: 4800 }));
  expect(shown()).toEqual([['success', '4,800 jobs put on hold', undefined]]);
  Notification.dismiss();
  tell(action({ id: 'a2' }));
  expect(shown()).toHaveLength(1);
  tell();
  expect(shown()).toEqual([]);
});

test('of a single job only what went wrong is told', () => {
  const { tell } = page();
  tell(action({ jobs: 1, done: 1, state: 'done' }));
  expect(shown()).toEqual([]);
  const refusals = [{ job: '12_3', why: 'Slurm refused: No.' }];
  tell(action({ id: 'a2', jobs: 1, done: 1, refused: 1, refusals, state: 'done' }));
  expect(shown()).toEqual([
    ['error', '0 jobs cancelled. 1 was not: 12_3. Slurm refused: No', undefined]
  ]);
});

test('an end that is longer than a toast has a button that shows all of it', () => {
  const { tell } = page();
  tell(action({ state: 'done', done: 4800 }));
  shown();
  const why = 'Slurm refused: '.padEnd(140, 'No. ');
  const refusals = [{ job: '12', why }];
  tell(action({ id: 'a2', state: 'done', done: 4800, refused: 1, refusals }));
  shown();
  const labels = Notification.manager.notifications.map(({ options }) =>
    options.actions?.map(({ label }) => label)
  );
  expect(labels).toEqual([['Show all'], []]);
});

test('the end says how many, which not, why, and what is left', () => {
  const refusals = ['1', '2', '3', '4', '5', '6'].map(job => ({ job, why: 'Slurm refused: No.' }));
  const stopped = action({ state: 'stopped', verb: 'release', done: 1000, refused: 9, refusals });
  expect(ended(stopped)).toBe(
    'Stopped: 991 jobs released. 9 were not: 1, 2, 3, 4, 5 …. Slurm refused: No. ' +
      '3,800 jobs are as they were'
  );
  const message = 'The line is cut.';
  const problem = { code: 'x', message, hint: null, detail: null, option: null, transient: true };
  expect(ended(action({ state: 'failed', verb: 'requeue', done: 1, problem }))).toBe(
    '1 job requeued. 4,799 jobs are as they were. The line is cut'
  );
});
