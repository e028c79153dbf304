// When the lines of a log were written, and how that is shown beside them. Pure; the texts and their
// blocks are output.ts's.
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

/** The time of each line of `before`, whose times are known, and of what was written after it. */
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
      times[times.length - 1] = timeS; // a progress line that begins anew
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
  /** The colours in force where it begins. */
  style: string;
  text: string;
  /** Where it begins in what is seen of its run. */
  from: number;
  /** '': not known. */
  time: string;
}

/** Each line of a run with its time in words. */
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

/** How wide the times are in characters, if `sinceS` is the first: older than today has a date. */
export function widthOf(sinceS: number, nowS: number): number {
  const words = momentWithSeconds(sinceS, nowS);
  return words.length + words.replace(/[^\u2e80-\uffff]/g, '').length;
}
