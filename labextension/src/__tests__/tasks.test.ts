import { taskCount } from '../tasks';

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
