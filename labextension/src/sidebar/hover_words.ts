// What the card beside a row of the sidebar says of a job. Pure: no DOM, no clock.
import { exactly } from '../exactly';
import { duration, isFinal, isWaiting, memory, moment, visible } from '../format';
import { isLab, stepOf } from '../labs/words';
import { decimal } from '../language';
import { trans } from '../translation';
import type { UsageSample } from '../wire';
import type { JobRow } from './rows';
import { endOf, tasks, tookS } from './words';

/** What it is, and when it starts or ends: beside its state, without what does not apply. */
export function facts(row: JobRow, nowS: number): string[] {
  const ranS = isFinal(row.state) ? tookS(row) : null;
  return [
    kind(row),
    left(row, nowS),
    ranS === null ? '' : trans.__('ran %1', duration(ranS)),
    isWaiting(row.state) && row.startEstimateS !== null ? start(row.startEstimateS, nowS) : ''
  ].filter(part => part !== '');
}

/** Why it waits or ended, and why nothing newer is known. */
export function reasons(row: JobRow, nowS: number): string[] {
  // Of one that was refused it is the reason, which `why` says.
  const problem = isFinal(row.state) ? null : row.job?.problem;
  return [visible(row.why ?? ''), problem ? unknownSince(row, problem.message, nowS) : ''].filter(
    part => part !== ''
  );
}

/** What it has, what it used when that was measured last, and its times: each with its label. */
export function table(row: JobRow, sample: UsageSample | undefined): [string, string][] {
  const busy = sample?.gpus.flatMap(({ utilisation }) => utilisation ?? []) ?? [];
  const mean = busy.reduce((sum, one) => sum + one, 0) / busy.length;
  const gpus = [
    row.gpus || busy.length,
    ...(busy.length > 0 ? [`${Math.round(100 * mean)} %`] : [])
  ];
  const time = (atS: number | null): string => (atS === null ? '' : exactly(atS));
  const lines: [string, string][] = [
    [trans.__('Tasks'), tasks(row)],
    [trans.__('Nodes'), visible(row.nodes ?? '')],
    [trans.__('GPUs'), gpus[0] === 0 ? '' : gpus.join(' · ')],
    [trans.__('CPUs'), sample === undefined ? '' : decimal(sample.cpus)],
    [trans.__('Memory'), sample === undefined ? '' : memory(sample.memory_mib)],
    [trans.__('Submitted'), time(row.submittedS)],
    [trans.__('Started'), time(row.startedS)],
    [trans.__('Ended'), time(row.endedS)]
  ];
  return lines.filter(([, value]) => value !== '');
}

function kind(row: JobRow): string {
  if (row.inSession) {
    return trans.__('cell of a session');
  }
  switch (row.job?.kind) {
    case 'session':
      return trans.__('session');
    case 'lab':
      return trans.__('lab');
    case 'kernel':
      return trans.__('kernel');
    default:
      return '';
  }
}

/** How far a lab is that does not let one in yet, else how long it has left. */
function left(row: JobRow, nowS: number): string {
  if (isFinal(row.state) || tasks(row) !== '') {
    return ''; // tasks end one by one
  }
  if (row.job !== null && isLab(row.job) && row.job.lab?.step !== 'ready') {
    return stepOf(row.job);
  }
  const ends = endOf(row);
  return ends === null ? '' : trans.__('ends in %1', duration(ends - nowS));
}

function start(atS: number, nowS: number): string {
  return atS <= nowS ? trans.__('starts any moment') : trans.__('starts ~%1', moment(atS, nowS));
}

function unknownSince(row: JobRow, message: string, nowS: number): string {
  const since = row.job?.problem_since_s;
  return since == null
    ? trans.__('Not known any more: %1', visible(message))
    : trans.__('Not known since %1: %2', moment(since, nowS), visible(message));
}
