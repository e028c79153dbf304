// The times of the lines of a log. No I/O.
import { momentWithSeconds } from '../format';
import type { Stream } from '../wire';
import type { Run } from './output';
import { openStyle, plain } from './terminal';

export type Written = Pick<Stream, 'text' | 'time_s'>;

export function linesIn(text: string): number {
  let count = text === '' || text.endsWith('\n') ? 0 : 1;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) {
    count += 1;
  }
  return count;
}

/** Return the time of each line of `before` and of the text after it. */
export function timesOf(
  before: string,
  known: readonly number[],
  written: readonly Written[]
): number[] {
  const times = [...known];
  let last = before.at(-1) ?? '\n';
  for (const { text, time_s: timeS } of written) {
    const end = text.indexOf('\n');
    const first = end < 0 ? text : text.slice(0, end);
    if (last !== '\n' && (first.includes('\r') || (last === '\r' && first !== ''))) {
      times[times.length - 1] = timeS; // a progress line starts again
    }
    const begun = linesIn(text) - (last === '\n' || text === '' ? 0 : 1);
    for (let count = 0; count < begun; count += 1) {
      times.push(timeS);
    }
    last = text.at(-1) ?? last;
  }
  return times;
}

export interface Line {
  /** The colours at its start. */
  style: string;
  text: string;
  /** Its start in the visible text of the run. */
  from: number;
  /** The time; '' if unknown. */
  time: string;
}

/** Return the lines of a run with their times. */
export function linesOf({ style, text, times }: Run, nowS: number): Line[] {
  let open = style;
  let from = 0;
  let time = '';
  return (text.match(/[^\n]*\n|[^\n]+$/g) ?? []).map((line, at) => {
    const timeS = times[at] ?? 0;
    if (at === 0 || timeS !== times[at - 1]) {
      time = timeS === 0 ? '' : momentWithSeconds(timeS, nowS);
    }
    const found = { style: open, text: line, from, time };
    open = openStyle(open + line);
    from += plain(line).length;
    return found;
  });
}

/** Return the width in characters of the widest time since `sinceS`. */
export function widthOf(sinceS: number, nowS: number): number {
  const words = momentWithSeconds(sinceS, nowS);
  return words.length + words.replace(/[^\u2e80-\uffff]/g, '').length;
}
