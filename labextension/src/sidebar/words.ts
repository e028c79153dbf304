// Texts of a row of the sidebar. No DOM, no clock.
import { endsOf } from '../ends';
import { duration, isFinal, isHeld, isRunning, moment, stateWord, visible } from '../format';
import { dotted, listed } from '../language';
import { isLab } from '../labs/words';
import { counted, progress, tally } from '../tasks';
import { trans } from '../translation';
import type { Row } from '../wire';

/** The text on the right: the time left, the reason and expected start, or the end. */
export function matters(row: Row, nowS: number): string {
  if (isFinal(row.state)) {
    const ranS = tookS(row);
    // Seconds distinguish short jobs.
    const ran = ranS === null ? '' : ranS < 600 ? duration(ranS) : brief(ranS);
    return dotted([how(row), ran]);
  }
  if (row.kind !== 'listed' && row.problem !== null) {
    return stateWord('UNKNOWN');
  }
  if (isRunning(row.state)) {
    return share(row) || untilEnd(row, nowS);
  }
  const { start_estimate_s: startS } = row;
  const start = startS == null || startS <= nowS ? '' : `~${moment(startS, nowS)}`;
  const why = start !== '' && row.reason?.startsWith('BeginTime') ? '' : waits(row);
  return dotted([why, start]);
}

/** Return the job's GPUs, and their load if it is known. */
export function gpusOf({ gpus = 0, gpu_load: gpuLoad }: Row): string {
  if (gpus === 0) {
    return '';
  }
  return gpuLoad == null
    ? trans._n('%1 GPU', '%1 GPUs', gpus)
    : trans.__('%1 GPU %2 %%', gpus, Math.round(100 * gpuLoad));
}

/** Return the task's number or range, `[7]` or `[3-9]`; '' if the job is not a task. */
export function taskOf({ slurm_id: slurmId }: Row): string {
  const at = slurmId?.split('_')[1] ?? '';
  return at === '' || at.startsWith('[') ? at : `[${at}]`;
}

/** Return the row as one sentence. */
export function sentence(row: Row, nowS: number): string {
  const word = stateWord(row.state);
  const load = row.gpu_load == null ? '' : gpusOf(row);
  const more = [load, ...matters(row, nowS).split(' · ')];
  const name = visible(`${row.name} ${taskOf(row)}`.trim());
  return listed([name, word, ...more.filter(part => part !== word)]);
}

/** Return the counts of an array's done and failed tasks. */
function share(row: Row): string {
  const { all, done, failed } = tally(row.tasks);
  return all === 0 ? '' : dotted([`${done}/${all}`, failed === 0 ? '' : counted('FAILED', failed)]);
}

/** Describe the end of the job. For an array, add the number of tasks. */
function how({ tasks: known, state }: Row): string {
  const { all, failed } = tally(known);
  if (failed > 0) {
    return counted('FAILED', failed);
  }
  if (state !== 'COMPLETED') {
    return stateWord(state);
  }
  return all > 0 ? trans._n('%1 task', '%1 tasks', all) : '';
}

/**
 * Return the time left of a lab, session or kernel. For other jobs return the elapsed time and the
 * limit.
 */
function untilEnd(row: Row, nowS: number): string {
  if (isLab(row) && row.lab?.step !== 'ready') {
    return trans.__('starting');
  }
  if (row.state !== 'RUNNING' || row.started_s == null) {
    return stateWord(row.state);
  }
  const ends = row.kind === 'cell' ? null : endsOf(row);
  if (ends !== null) {
    return trans.__('%1 left', brief(ends - nowS));
  }
  const ran = clock(nowS - row.started_s);
  return row.limit_s == null ? ran : `${ran} / ${brief(row.limit_s)}`;
}

/** Return a duration as Slurm prints it: `1:35`, `1:02:03`, `1-02:03:04`. */
function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (part: number): string => String(part).padStart(2, '0');
  const [d, h, min] = [86_400, 3_600, 60].map(unit => Math.floor(whole / unit));
  const rest = `${two((min ?? 0) % 60)}:${two(whole % 60)}`;
  if (d) {
    return `${d}-${two((h ?? 0) % 24)}:${rest}`;
  }
  return h ? `${h}:${rest}` : rest.replace(/^0/, '');
}

/** Return the latest end; null if it is unknown or the time is unlimited. */
export function endOf(row: Row): number | null {
  const { state, started_s: startedS, limit_s: limitS } = row;
  const byLimit = state === 'RUNNING' && startedS != null && limitS ? startedS + limitS : null;
  return endsOf(row) ?? byLimit;
}

/** Return a time to the minute, such as `1 h 48`, since seconds that count down would distract. */
export function brief(seconds: number): string {
  return seconds < 60
    ? trans.__('< 1 min')
    : duration(Math.floor(seconds / 60) * 60).replace(/( h \d+) min$/, '$1');
}

/** Return the reason for waiting in a word or two. */
export function waits(row: Pick<Row, 'state' | 'reason'>): string {
  if (row.state !== 'PENDING') {
    return stateWord(row.state);
  }
  if (isHeld(row.state, row.reason)) {
    return trans.__('on hold');
  }
  const reason = /\w+/.exec(row.reason ?? '')?.[0] ?? '';
  switch (reason) {
    case 'Priority':
      return trans.__('priority');
    case 'Resources':
      return trans.__('next');
    case 'Dependency':
      return trans.__('after another job');
    case 'BeginTime':
      return trans.__('starts later');
    case 'JobArrayTaskLimit':
      return trans.__('task limit');
    case 'ReqNodeNotAvail':
      return trans.__('node not available');
    case 'Reservation':
      return trans.__('reservation');
    case 'Licenses':
      return trans.__('licenses');
    default:
      return /^(QOS|Assoc|Max)/.test(reason) ? trans.__('limit reached') : stateWord(row.state);
  }
}

/**
 * Return the share of ended tasks, or else of the elapsed time limit, 0 to 1; null if there is
 * none.
 */
export function used(row: Row, nowS: number): number | null {
  const { all, ended } = tally(row.tasks);
  if (all > 0 && isRunning(row.state)) {
    return ended / all;
  }
  if (!isRunning(row.state) || row.started_s == null || !row.limit_s) {
    return null;
  }
  return Math.min(1, Math.max(0, (nowS - row.started_s) / row.limit_s));
}

/** Return the progress of an array in words; '' if the job is not an array. */
export function tasks(row: Row): string {
  return listed(progress(row));
}

/** Return the run time; null if unknown. */
export function tookS({ started_s: startedS, ended_s: endedS }: Row): number | null {
  return startedS != null && endedS != null ? endedS - startedS : null;
}
