import { job } from '../../__tests__/fakes';
import { howItEnded, reasonsLeft } from '../ended';

test.each([
  ['The cell raised ValueError.', 'ValueError', null],
  ['Failed (exit code 3).', 'exit code 3', null],
  ['Failed (exit code 3). That was on n2 only.', 'exit code 3', 'shown']
])("the headline's reason is not repeated: %s", (why, how, left) => {
  const failed = job({ state: 'FAILED', exit_code: 3, why, advice: 'Look.' });
  expect(howItEnded(failed)).toBe(how);
  expect(reasonsLeft(failed, false)).toEqual([left && why, 'Look.']);
});
