import { taskCount, ranksOf } from '../tasks';

test.each([
  ['', 1],
  ['7', 1],
  ['7_3', 1],
  ['7_[3]', 1],
  ['7_[4-9]', 6],
  ['7_[1,3,5-7%2]', 5],
  ['7_[0-10:5]', 3],
  ['7_[1-4,7,9-15:2%2]', 9],
  ['7_[1-4,7,...]', null]
])('%s stands for %s tasks', (id, count) => {
  expect(taskCount(id)).toBe(count);
});

test('a job on many nodes has a log for each rank', () => {
  expect(ranksOf({ state: 'RUNNING' }, 3)).toEqual([
    [0, 'RUNNING'],
    [1, 'RUNNING'],
    [2, 'RUNNING']
  ]);
});
