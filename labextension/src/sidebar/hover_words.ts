// Texts of the card beside a row of the sidebar. No DOM, no clock.
import { exactly } from '../exactly';
import { duration, isFinal, isWaiting, memory, moment, sessionOf, visible } from '../format';
import { isLab, stepOf } from '../labs/words';
import { decimal } from '../language';
import { trans } from '../translation';
import type { Row, UsageSample } from '../wire';
import { endOf, tasks, tookS } from './words';

/** The kind, and the start or end. Other facts are omitted. */
export function facts(row: Row, nowS: number): string[] {
  const ranS = isFinal(row.state) ? tookS(row) : null;
  return [
    kind(row),
    left(row, nowS),
    ranS === null ? '' : trans.__('ran %1', duration(ranS)),
    isWaiting(row.state) && row.start_estimate_s != null ? start(row.start_estimate_s, nowS) : ''
  ].filter(part => part !== '');
}

/** The reason for waiting or ending, and the reason why the state is old. */
export function reasons(row: Row, nowS: number): string[] {
  // The problem of a refused job equals `why`.
  const problem = isFinal(row.state) || row.kind === 'listed' ? null : row.problem;
  return [
    row.state === 'COMPLETED' ? '' : visible(row.why ?? ''),
    problem ? unknownSince(row, problem.message, nowS) : ''
  ].filter(part => part !== '');
}

/** Resources, their last measured use, and times, each with its label. */
export function table(row: Row, sample: UsageSample | undefined): [string, string][] {
  const busy = sample?.gpus.flatMap(({ utilisation }) => utilisation ?? []) ?? [];
  const mean = busy.reduce((sum, one) => sum + one, 0) / busy.length;
  const gpus = [
    (row.gpus ?? 0) || busy.length,
    ...(busy.length > 0 ? [`${Math.round(100 * mean)} %`] : [])
  ];
  const time = (atS: number | null | undefined): string => (atS == null ? '' : exactly(atS));
  const lines: [string, string][] = [
    [trans.__('Tasks'), tasks(row)],
    [trans.__('Nodes'), visible((row.nodes ?? []).join(', '))],
    [trans.__('GPUs'), gpus[0] === 0 ? '' : gpus.join(' · ')],
    [trans.__('CPUs'), sample === undefined ? '' : decimal(sample.cpus)],
    [trans.__('Memory'), sample === undefined ? '' : memory(sample.memory_mib)],
    [
      trans.__('Submitted'),
      time(row.submitted_s ?? (row.kind === 'listed' ? null : row.created_s))
    ],
    [trans.__('Started'), time(row.started_s)],
    [trans.__('Ended'), time(row.ended_s)]
  ];
  return lines.filter(([, value]) => value !== '');
}

function kind(row: Row): string {
  if (sessionOf(row) !== null) {
    return trans.__('cell of a session');
  }
  switch (row.kind) {
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

/** The progress of a starting lab, or else the time left. */
function left(row: Row, nowS: number): string {
  if (isFinal(row.state) || tasks(row) !== '') {
    return ''; // tasks end one by one
  }
  if (isLab(row) && row.lab?.step !== 'ready') {
    return stepOf(row);
  }
  const ends = endOf(row);
  return ends === null ? '' : trans.__('ends in %1', duration(ends - nowS));
}

function start(atS: number, nowS: number): string {
  return atS <= nowS ? trans.__('starts any moment') : trans.__('starts ~%1', moment(atS, nowS));
}

function unknownSince(row: Row, message: string, nowS: number): string {
  const since = row.kind === 'listed' ? null : row.problem_since_s;
  return since == null
    ? trans.__('State unknown: %1', visible(message))
    : trans.__('State unknown since %1: %2', moment(since, nowS), visible(message));
}
