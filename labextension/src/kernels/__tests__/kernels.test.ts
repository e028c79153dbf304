// Remote kernels in the browser: the words that make one, what its row says, and when it ends.
import { Notification } from '@jupyterlab/apputils';
import { FakeModel, job, NOW_S } from '../../__tests__/fakes';
import { notes } from '../../card/facts';
import { endsOf } from '../../ends';
import { actionsOf } from '../../sidebar/menu';
import { rowsOf, type JobRow } from '../../sidebar/rows';
import { facts } from '../../sidebar/hover_words';
import { lineOf, NO_WISHES, wishesOf } from '../../submit/form';
import { CommandIDs } from '../../tokens';
import { Warnings } from '../../warnings';
import type { Job, RemoteKernel } from '../../wire';
import { endingSoon, isKernel, optionsOf } from '../words';

function kernel(fields: Partial<Job> = {}): Job {
  return job({ kind: 'kernel', name: 'fit', notebook: '/home/ana/fit.ipynb', ...fields });
}

function spec(words: string[]): RemoteKernel {
  return { name: 'k', display_name: 'K', words, cluster: 'arandu', exists: true };
}

test('a form says what makes a kernel', () => {
  const wishes = {
    ...NO_WISHES,
    cluster: 'arandu',
    name: 'mine',
    'display-name': 'Mine (A100)',
    idle: '2h'
  };
  const line = "--cluster arandu --display-name 'Mine (A100)' --name mine --idle 2h";
  expect(lineOf(wishes)).toBe(line);
  expect(wishesOf(line)).toEqual(wishes);
});

test('the options of a kernel are told without its cluster', () => {
  expect(optionsOf(spec(['--cluster', 'arandu', '--gpus', '1']))).toBe('--gpus 1');
  expect(optionsOf(spec(['--time', '1 h', '--cluster=arandu']))).toBe("--time '1 h'");
  expect(optionsOf(spec(['--gpus', '1']))).toBe('--gpus 1');
});

test('a row says how long a kernel has left, and leads to its notebook', () => {
  const row = (one: Job): JobRow => {
    const [found] = rowsOf(one.cluster, { jobs: [one], entries: [], past: [] });
    if (found === undefined) {
      throw new Error('it is not listed');
    }
    return found;
  };
  const told = ['kernel', 'ends in 57 min 55 s'];
  expect(facts(row(kernel()), NOW_S)).toEqual(told);
  expect(actionsOf(row(kernel()))).toEqual([CommandIDs.goToCell, CommandIDs.cancel]);
  expect(endsOf(kernel({ state: 'PENDING' }))).toBeNull();
});

test('a card says when a kernel ends', () => {
  const fresh = { asOf: NOW_S, problem: null };
  const told = notes(kernel({ limit_s: 200, idle_s: 3600 }), fresh, undefined, NOW_S);
  expect(told.map(one => one.text)).toEqual([
    'The kernel ends in 1 min 15 s; its variables are lost then.',
    'It ends after 1 h in which nobody is connected.'
  ]);
});

test('that a kernel is about to end is told in time, and once', () => {
  jest.useFakeTimers();
  const shown = jest.spyOn(Notification, 'warning').mockReturnValue('one');
  const model = new FakeModel();
  let nowS = NOW_S;
  const told = (one: Job, left: string): string => endingSoon(one, left);
  const act = jest.fn();
  new Warnings(model, { is: isKernel, told, label: 'Go', act }, null, () => nowS);
  model.put(job({ id: 'other', limit_s: 200 }));
  model.put(kernel({ limit_s: 525 }));
  jest.advanceTimersByTime(20_000);
  expect(shown).not.toHaveBeenCalled();
  nowS += 101;
  jest.advanceTimersByTime(60_000);
  expect(shown).toHaveBeenCalledTimes(1);
  const [message, options] = shown.mock.calls[0] ?? [];
  expect(message).toBe('The kernel of fit ends in 4 min 59 s: its variables are lost then.');
  options?.actions?.[0]?.callback(new MouseEvent('click'));
  expect(act).toHaveBeenCalledWith(kernel({ limit_s: 525 }));
  shown.mockRestore();
  jest.useRealTimers();
});
