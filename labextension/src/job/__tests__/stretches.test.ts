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

test('each state is shown with its total time', () => {
  const life = [event(100.5, 'SUBMITTING'), ...LIFE.slice(1), event(211, 'COMPLETED')];
  const over = stretchesOf(life, 300);
  expect(sumsOf(over)).toEqual([
    ['PENDING', 30],
    ['RUNNING', 70],
    ['REQUEUED', 10]
  ]);
});
