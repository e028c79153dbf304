// What a row of the sidebar says of a job: how long, where, why it waits. Pure: no DOM, no clock.
import type { TranslationBundle } from '@jupyterlab/translation';
import { endsOf } from '../ends';
import { duration, isFinal, isRunning, moment, visible } from '../format';
import { isKernel } from '../kernels/words';
import { isLab, stepOf } from '../labs/words';
import { said } from '../messages';
import { progress, taskCount } from '../tasks';
import type { JobRow } from './rows';

/** At the right: how long it runs of how long it may, how long it waits, when it ended. */
export function time(row: JobRow, nowS: number, trans: TranslationBundle): string {
  if (isFinal(row.state)) {
    return row.endedS === null ? '' : moment(row.endedS, nowS);
  }
  if (isRunning(row.state)) {
    if (row.startedS === null) {
      return '';
    }
    const passed = duration(nowS - row.startedS);
    return row.limitS ? trans.__('%1 of %2', passed, duration(row.limitS)) : passed;
  }
  return row.submittedS === null ? '' : duration(nowS - row.submittedS);
}

/** The same, exactly. */
export function exactTimes(row: JobRow, trans: TranslationBundle): string {
  const times: [string, number | null][] = [
    [trans.__('Submitted'), row.submittedS],
    [trans.__('Expected to start'), row.startEstimateS],
    [trans.__('Started'), row.startedS],
    [trans.__('Ended'), row.endedS]
  ];
  return times
    .filter((one): one is [string, number] => one[1] !== null)
    .map(([label, at]) => `${label}: ${new Date(at * 1000).toLocaleString()}`)
    .join('\n');
}

/** The second line: what is known besides, without what does not apply. */
export function facts(row: JobRow, nowS: number, trans: TranslationBundle): string[] {
  const waits = !isFinal(row.state) && !isRunning(row.state);
  const problem = row.job?.problem;
  return [
    kind(row, trans),
    tasks(row, trans),
    row.nodes === null ? '' : visible(row.nodes),
    row.gpus > 0 ? trans._n('%1 GPU', '%1 GPUs', row.gpus) : '',
    left(row, nowS, trans),
    took(row, trans),
    visible(said(row.why ?? '', trans)),
    waits && row.startEstimateS !== null ? start(row.startEstimateS, nowS, trans) : '',
    problem ? unknownSince(row, said(problem.message, trans), nowS, trans) : ''
  ].filter(part => part !== '');
}

/** The part of its time limit that is used, 0 to 1; null: there is none, or it does not run. */
export function used(row: JobRow, nowS: number): number | null {
  if (!isRunning(row.state) || row.startedS === null || !row.limitS) {
    return null;
  }
  return Math.min(1, Math.max(0, (nowS - row.startedS) / row.limitS));
}

function kind(row: JobRow, trans: TranslationBundle): string {
  if (row.inSession) {
    return trans.__('cell of a session');
  }
  switch (row.job?.kind) {
    case 'session':
      return trans.__('session');
    case 'lab':
      return trans.__('lab');
    case 'terminal':
      return trans.__('terminal');
    case 'kernel':
      return trans.__('kernel');
    default:
      return '';
  }
}

function tasks(row: JobRow, trans: TranslationBundle): string {
  const known = row.job === null ? [] : progress(row.job, trans);
  if (known.length > 0) {
    return known.join(', ');
  }
  if (row.tasks.length === 0) {
    return '';
  }
  const count = (some: JobRow[]): number =>
    some.reduce((sum, task) => sum + (taskCount(task.slurmId ?? '') ?? 1), 0);
  const running = count(row.tasks.filter(task => isRunning(task.state)));
  const all = count(row.tasks);
  return running > 0
    ? trans.__('%1 of %2 tasks run', running, all)
    : trans._n('%1 task', '%1 tasks', all);
}

/** How far a lab is that does not let one in yet, else how long it, or a kernel, has left. */
function left(row: JobRow, nowS: number, trans: TranslationBundle): string {
  if (row.job === null || isFinal(row.state) || !(isLab(row.job) || isKernel(row.job))) {
    return '';
  }
  if (isLab(row.job) && row.job.lab?.step !== 'ready') {
    return stepOf(row.job, trans);
  }
  const ends = endsOf(row.job);
  return ends === null ? '' : trans.__('ends in %1', duration(ends - nowS));
}

function took(row: JobRow, trans: TranslationBundle): string {
  return isFinal(row.state) && row.startedS !== null && row.endedS !== null
    ? trans.__('ran %1', duration(row.endedS - row.startedS))
    : '';
}

function start(atS: number, nowS: number, trans: TranslationBundle): string {
  return atS <= nowS
    ? trans.__('may start at any moment')
    : trans.__('may start in %1, at %2', duration(atS - nowS), moment(atS, nowS));
}

function unknownSince(
  row: JobRow,
  message: string,
  nowS: number,
  trans: TranslationBundle
): string {
  const since = row.job?.problem_since_s;
  return since == null
    ? trans.__('Not known any more: %1', visible(message))
    : trans.__('Not known since %1: %2', moment(since, nowS), visible(message));
}
