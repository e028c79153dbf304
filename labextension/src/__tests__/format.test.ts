import { duration, isFinal, moment, stateWord, tone, visible } from '../format';

test.each([
  [7.4, '7 s'],
  [125, '2 min 5 s'],
  [3700, '1 h 1 min'],
  [200_000, '2 d 7 h'],
  [-3, '0 s']
])('%d seconds are shown as %s', (seconds, told) => expect(duration(seconds)).toBe(told));

test("a time has a date unless it is today or tonight, in the page's language", () => {
  const at = new Date(2026, 10, 26, 17, 4).getTime() / 1000;
  document.documentElement.lang = 'pt-BR';
  expect(moment(at, at)).toBe('17:04');
  expect(moment(at, at + 86_400)).toBe('26 de nov., 17:04');
  expect(moment(at + 8 * 3_600, at)).toBe('01:04');
  expect(moment(at + 20 * 3_600, at)).toBe('27 de nov., 13:04');
  document.documentElement.lang = '';
});

test('a name with control characters and reversed text is one line in order', () =>
  expect(visible('a\u001b[31m\tb\n\u202Ec')).toBe('a\ufffd[31m b \ufffdc'));

test.each([
  ['COMPLETED', 'done', true],
  ['RUNNING', 'running', false],
  ['PENDING', 'waiting', false],
  ['OUT_OF_MEMORY', 'failed', true],
  ['LOST', 'unknown', true],
  ['SOMETHING_NEW', 'waiting', false]
])('%s has the tone %s', (state, expected, final) => {
  expect(tone(state)).toBe(expected);
  expect(isFinal(state)).toBe(final);
});

test('an unknown state keeps its own name', () =>
  expect(stateWord('SOMETHING_NEW')).toBe('something new'));
