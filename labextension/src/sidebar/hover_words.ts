// What the card beside a row of the sidebar says of a job. Pure: no DOM, no clock.
import type { TranslationBundle } from '@jupyterlab/translation';
import { exactly } from '../exactly';
import { duration, isFinal, isRunning, memory, moment, visible } from '../format';
import { isLab, stepOf } from '../labs/words';
import { decimal } from '../language';
import { said } from '../messages';
import type { UsageSample } from '../wire';
import type { JobRow } from './rows';
import { endOf, tasks, took } from './words';

/** What is known besides, without what does not apply. */
export function facts(row: JobRow, nowS: number, trans: TranslationBundle): string[] {
  const waits = !isFinal(row.state) && !isRunning(row.state);
  // Of one that was refused it is the reason, which `why` says.
  const problem = isFinal(row.state) ? null : row.job?.problem;
  return [
    kind(row, trans),
    tasks(row, trans),
    row.nodes === null ? '' : visible(row.nodes),
    row.gpus > 0 ? trans._n('%1 GPU', '%1 GPUs', row.gpus) : '',
    left(row, nowS, trans),
    isFinal(row.state) && took(row) !== '' ? trans.__('ran %1', took(row)) : '',
    visible(said(row.why ?? '', trans)),
    waits && row.startEstimateS !== null ? start(row.startEstimateS, nowS, trans) : '',
    problem ? unknownSince(row, said(problem.message, trans), nowS, trans) : ''
  ].filter(part => part !== '');
}

/** Its times, exactly. */
export function exactTimes(row: JobRow, trans: TranslationBundle): string {
  const times: [string, number | null][] = [
    [trans.__('Submitted'), row.submittedS],
    [trans.__('Started'), row.startedS],
    [trans.__('Ended'), row.endedS]
  ];
  return times
    .filter((one): one is [string, number] => one[1] !== null)
    .map(([label, at]) => `${label}: ${exactly(at)}`)
    .join('\n');
}

/** What it uses, as it was measured last. */
export function load(sample: UsageSample | undefined, trans: TranslationBundle): string[] {
  if (sample === undefined) {
    return [];
  }
  const busy = sample.gpus.flatMap(({ utilisation }) => utilisation ?? []);
  const mean = busy.reduce((sum, one) => sum + one, 0) / busy.length;
  return [
    busy.length > 0
      ? trans._n('%1 GPU: %2 %%', '%1 GPUs: %2 %%', busy.length, Math.round(100 * mean))
      : '',
    trans.__('%1 CPUs · %2 of memory', decimal(sample.cpus), memory(sample.memory_mib))
  ].filter(Boolean);
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

/** How far a lab is that does not let one in yet, else how long it has left. */
function left(row: JobRow, nowS: number, trans: TranslationBundle): string {
  if (isFinal(row.state) || tasks(row, trans) !== '') {
    return ''; // tasks end one by one
  }
  if (row.job !== null && isLab(row.job) && row.job.lab?.step !== 'ready') {
    return stepOf(row.job, trans);
  }
  const ends = endOf(row);
  return ends === null ? '' : trans.__('ends in %1', duration(ends - nowS));
}

function start(atS: number, nowS: number, trans: TranslationBundle): string {
  return atS <= nowS ? trans.__('starts any moment') : trans.__('starts ~%1', moment(atS, nowS));
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
