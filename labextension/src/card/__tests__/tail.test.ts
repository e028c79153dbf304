import type { LogChunk, Output } from '../../wire';
import { plain } from '../../job/terminal';
import { lastLines, textOf } from '../tail';

function chunk(outputs: Output[]): LogChunk {
  return { outputs } as LogChunk;
}

test('streams and errors are text, without what steers a terminal', () => {
  const outputs = [
    { type: 'stream', name: 'stdout', text: '\u001b[32mgreen\u001b[0m <b>\n', time_s: 0 },
    { type: 'error', ename: 'E', evalue: 'x', traceback: ['\u001b]8;;http://x\u0007a', 'b'] }
  ] as Output[];
  expect(plain(lastLines(textOf(chunk(outputs))))).toBe('green <b>\na\nb\n');
});

test('a progress bar shows its last state, however its text comes in', () => {
  let shown = '';
  for (const piece of ['10%\r2', '0%\r', '30%\r', '\n', 'done\r\n']) {
    shown = lastLines(shown + piece);
  }
  expect(shown.replaceAll('\r', '')).toBe('30%\ndone\n');
});

test('it holds the last lines, and of one without an end its last part', () => {
  expect(lastLines('a\n'.repeat(10_000)).length).toBeLessThan(500);
  expect(lastLines('a'.repeat(1_000_000)).length).toBe(100_000);
});
