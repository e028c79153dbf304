import { NOW_S } from '../../__tests__/fakes';
import type { Freshness } from '../../tokens';
import { problem } from '../../messages';
import { isOld, knownS } from '../freshness';

const lost = problem('unreachable', 'The controller cannot be reached.');

test.each<[string, Freshness, boolean]>([
  ['none yet', { asOf: null, problem: null, intervalS: 10 }, false],
  ['none yet, and why', { asOf: null, problem: lost, intervalS: 10 }, false],
  ['a moment old', { asOf: NOW_S - 25, problem: null, intervalS: 10 }, false],
  ['overdue', { asOf: NOW_S - 60, problem: null, intervalS: 10 }, true],
  ['overdue, with news once a minute', { asOf: NOW_S - 130, problem: null, intervalS: 60 }, false],
  ['a moment old, and the next failed', { asOf: NOW_S - 5, problem: lost, intervalS: 10 }, true],
  ['news without an interval', { asOf: NOW_S - 900, problem: null }, false]
])('a state is old when news are overdue or failed: %s', (_, freshness, old) => {
  expect(isOld(freshness, NOW_S)).toBe(old);
  expect(knownS(freshness, NOW_S)).toBe(old ? freshness.asOf : NOW_S);
});
