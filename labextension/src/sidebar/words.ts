// What a row of the sidebar says of a job. Pure: no DOM, no clock.
import { endsOf } from '../ends';
import { duration, isFinal, isRunning, moment, stateWord, visible } from '../format';
import { dotted, listed } from '../language';
import { isLab } from '../labs/words';
import { counted, progress, tally, taskCount } from '../tasks';
import { trans } from '../translation';
import type { JobRow } from './rows';

/** At the right, what matters now: what is left, why it waits and until when, how it ended. */
export function matters(row: JobRow, nowS: number): string {
  if (isFinal(row.state)) {
    const ranS = tookS(row);
    // Seconds tell short jobs apart.
    const ran = ranS === null ? '' : ranS < 600 ? duration(ranS) : brief(ranS);
    return dotted([how(row), ran]);
  }
  if (row.job?.problem) {
    return stateWord('UNKNOWN');
  }
  if (isRunning(row.state) || row.tasks.some(task => isRunning(task.state))) {
    return share(row) || untilEnd(row, nowS);
  }
  const { startEstimateS: startS } = row;
  const start = startS === null || startS <= nowS ? '' : `~${moment(startS, nowS)}`;
  const why = start !== '' && row.reason.startsWith('BeginTime') ? '' : waits(row);
  return dotted([why, start]);
}

/** Returns the job's GPUs, and their load where it is known. */
export function gpusOf({ gpus, gpuLoad }: JobRow): string {
  if (gpus === 0) {
    return '';
  }
  return gpuLoad === null
    ? trans._n('%1 GPU', '%1 GPUs', gpus)
    : trans.__('%1 GPU %2 %%', gpus, Math.round(100 * gpuLoad));
}

/** Returns the task's number or range, `[7]` or `[3-9]`; '' if the job is not a task. */
export function taskOf({ slurmId }: JobRow): string {
  const at = slurmId?.split('_')[1] ?? '';
  return at === '' || at.startsWith('[') ? at : `[${at}]`;
}

/** The whole row as one sentence. */
export function sentence(row: JobRow, nowS: number): string {
  const word = stateWord(row.state);
  const load = row.gpuLoad === null ? '' : gpusOf(row);
  const more = [load, ...matters(row, nowS).split(' · ')];
  const name = visible(`${row.name} ${taskOf(row)}`.trim());
  return listed([name, word, ...more.filter(part => part !== word)]);
}

/** Of an array, how many of its tasks are done and have failed; of one not ours, how many run. */
function share(row: JobRow): string {
  const { all, done, failed } = tally(row.job?.tasks ?? {});
  if (all > 0) {
    return dotted([`${done}/${all}`, failed === 0 ? '' : counted('FAILED', failed)]);
  }
  const states = [...tasksByState(row)];
  const running = states.filter(([state]) => isRunning(state));
  return states.length === 0 ? '' : trans.__('%1 of %2 running', sum(running), sum(states));
}

/** Says how the job ended; for an array, also how many tasks it had. */
function how({ job, state }: JobRow): string {
  const { all, failed } = tally(job?.tasks ?? {});
  if (failed > 0) {
    return counted('FAILED', failed);
  }
  if (state !== 'COMPLETED') {
    return stateWord(state);
  }
  return all > 0 ? trans._n('%1 task', '%1 tasks', all) : '';
}

function untilEnd(row: JobRow, nowS: number): string {
  if (row.job !== null && isLab(row.job) && row.job.lab?.step !== 'ready') {
    return trans.__('starting');
  }
  if (row.state !== 'RUNNING' || row.startedS === null) {
    return stateWord(row.state);
  }
  const ends = endOf(row);
  return ends === null ? brief(nowS - row.startedS) : trans.__('%1 left', brief(ends - nowS));
}

/** Returns when it ends at the latest; null: nobody knows, or never. */
export function endOf({ job, state, startedS, limitS }: JobRow): number | null {
  const byLimit = state === 'RUNNING' && startedS !== null && limitS ? startedS + limitS : null;
  return (job === null ? null : endsOf(job)) ?? byLimit;
}

/** Returns a time to the minute, `1 h 48`: seconds that count down would distract. */
export function brief(seconds: number): string {
  return seconds < 60
    ? trans.__('< 1 min')
    : duration(Math.floor(seconds / 60) * 60).replace(/( h \d+) min$/, '$1');
}

/** Why it waits, in a word or two. */
export function waits(row: Pick<JobRow, 'state' | 'held' | 'reason'>): string {
  if (row.state !== 'PENDING') {
    return stateWord(row.state);
  }
  if (row.held) {
    return trans.__('on hold');
  }
  const reason = /\w+/.exec(row.reason)?.[0] ?? '';
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

/** The part of its tasks that have ended, else of its time limit, 0 to 1; null: there is none. */
export function used(row: JobRow, nowS: number): number | null {
  const { all, ended } = tally(row.job?.tasks ?? {});
  if (all > 0 && isRunning(row.state)) {
    return ended / all;
  }
  if (!isRunning(row.state) || row.startedS === null || !row.limitS) {
    return null;
  }
  return Math.min(1, Math.max(0, (nowS - row.startedS) / row.limitS));
}

/** How an array is, in words; '': it is none. */
export function tasks(row: JobRow): string {
  const known = row.job === null ? [] : progress(row.job);
  if (known.length > 0) {
    return listed(known);
  }
  if (row.tasks.length === 0) {
    return '';
  }
  const states = [...tasksByState(row)];
  return states.some(([state]) => isRunning(state))
    ? states.map(([state, many]) => counted(state, many)).join(' · ')
    : trans._n('%1 task', '%1 tasks', sum(states));
}

/** As Slurm's queue lists them, which does not tell how many have ended already. */
function tasksByState(row: JobRow): Map<string, number> {
  const states = new Map<string, number>();
  for (const { state, slurmId } of row.tasks) {
    states.set(state, (states.get(state) ?? 0) + (taskCount(slurmId ?? '') ?? 1));
  }
  return states;
}

function sum(states: readonly [string, number][]): number {
  return states.reduce((many, [, count]) => many + count, 0);
}

/** For how long it ran; null: that is not known. */
export function tookS({ startedS, endedS }: JobRow): number | null {
  return startedS !== null && endedS !== null ? endedS - startedS : null;
}
