import type { JobEvent } from '../../wire';
import { stretchesOf, sumsOf } from '../stretches';

const event = (time_s: number, state: JobEvent['state'], text: string | null = null): JobEvent => ({
  time_s,
  state,
  text
});

const LIFE = [
  event(100, 'SUBMITTING'),
  event(101, 'PENDING', 'Accepted as job 7.'),
  event(101, 'PENDING', 'Next in line, waiting for resources.'),
  event(131, 'RUNNING', 'Started on n1.'),
  event(191, 'REQUEUED', 'Back in the queue.'),
  event(201, 'RUNNING', 'Started on n2.')
];

const lasts = (events: readonly JobEvent[], nowS: number): number[] =>
  stretchesOf(events, nowS).map(({ lastsS }) => lastsS);

test('each event lasts until the next, the last until now', () =>
  expect(lasts(LIFE, 221)).toEqual([1, 0, 30, 60, 10, 20]));

test('an end lasts no time, whatever time it is', () =>
  expect(lasts([...LIFE, event(211, 'COMPLETED')], 9999)).toEqual([1, 0, 30, 60, 10, 10, 0]));

test('a clock that is behind makes nothing shorter than it can be', () =>
  expect(lasts(LIFE, 150).at(-1)).toBe(0));

test('each state has the time of all its stretches, an end none, nor what was over at once', () => {
  const life = [event(100.5, 'SUBMITTING'), ...LIFE.slice(1), event(211, 'COMPLETED')];
  const over = stretchesOf(life, 300);
  expect(sumsOf(over)).toEqual([
    ['PENDING', 30],
    ['RUNNING', 70],
    ['REQUEUED', 10]
  ]);
});
