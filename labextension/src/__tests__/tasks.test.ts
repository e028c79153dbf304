import { progress, taskCount, taskNamed } from '../tasks';
import { job } from './fakes';

test.each([
  ['', 1],
  ['7', 1],
  ['7_3', 1],
  ['7_[3]', 1],
  ['7_[4-9]', 6],
  ['7_[1,3,5-7%2]', 5],
  ['7_[0-10:5]', 3],
  ['7_[1-4,7,9-15:2%2]', 9],
  ['7_[1-4,7,...]', null],
  ['7_[1-2-3]', null]
])('%s stands for %s tasks', (id, count) => expect(taskCount(id)).toBe(count));

test('one unfinished task is named by its index, and several tasks are counted', () => {
  const told = (tasks: Record<string, string>): string => progress({ tasks }).join(' · ');
  expect(told({ COMPLETED: '0-1', FAILED: '2', RUNNING: '3,5' })).toBe(
    '2 of 5 tasks done · task 2 failed · 2 running'
  );
  expect(told({ FAILED: '1,4', PENDING: '100-4999' })).toBe(
    '0 of 4,902 tasks done · 2 failed · 4,900 waiting'
  );
  expect(told({})).toBe('');
});

test("a Slurm ID names a sweep's task, also in a later array", () => {
  const sweep = job({ kind: 'sweep', slurm_id: '7', offsets: { '9': 1001 } });
  expect(taskNamed(sweep, '7_3')).toBe(3);
  expect(taskNamed(sweep, '9_3')).toBe(1004);
  expect(taskNamed(job({ kind: 'script' }), '9_3')).toBe(3);
  expect(taskNamed(sweep, '9_[3-5]')).toBeNull();
  expect(taskNamed(sweep, '9')).toBeNull();
});
