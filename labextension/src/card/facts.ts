// The words of a card and of the head of a job's panel: labelled facts, and notes. They depend only
// on the job and the time. No I/O.
import { soonLeftS } from '../ends';
import { duration, isFinal, memory, moment, sessionOf, stateWord, visible } from '../format';
import { dotted, listed, together } from '../language';
import { stepOf } from '../labs/words';
import { toldBeside } from '../messages';
import { matters } from '../sidebar/words';
import { progress } from '../tasks';
import type { Freshness } from '../tokens';
import { trans } from '../translation';
import type { Connection, Job, KernelJob, LabJob, SessionJob, Transfer, Usage } from '../wire';
import { howItEnded } from './ended';

const ERASED_SOON_S = 14 * 24 * 3600;

export interface Note {
  /** Severity: `bad` is a failure, `look` a warning, `plain` information. */
  tone: 'bad' | 'look' | 'plain';
  text: string;
}

/** A fact with its label. */
export type Fact = readonly [label: string, value: string];

/** The job's ID, cluster and partition: `Job 123 · arandu · gpu`. */
export function place({ slurm_id, id, cluster, partition }: Job): string {
  return dotted([trans.__('Job %1', slurm_id ?? id), visible(cluster), visible(partition ?? '')]);
}

/** Text beside the state: the time left, the reason and start, or the cause of the end. */
export function now(job: Job, nowS: number): string[] {
  const known = [howItEnded(job), ...matters(job, nowS).split(' · ')];
  const word = stateWord(job.state);
  return known.map(visible).filter(part => part !== '' && part !== word);
}

/** Resources of the job, and its usage once it has ended. */
export function facts(job: Job): Fact[] {
  const { nodes, gpus, image, runtime, python, usage } = job;
  return filled([
    [nodes.length > 1 ? trans.__('Nodes') : trans.__('Node'), nodes.map(visible).join(', ')],
    [trans.__('GPUs'), gpus > 0 ? String(gpus) : ''],
    [trans.__('Image'), image === null ? '' : `${visible(image)} (${runtime})`],
    // An image has its own Python.
    ['Python', image === null && python !== null ? python.join('.') : ''],
    ...(isFinal(job.state) && usage !== null ? used(usage) : [])
  ]);
}

/** Progress, times and end of the job, with its account and attempt. */
export function times(job: Job, nowS: number): Fact[] {
  const { account, restarts, why } = job;
  return filled([
    [trans.__('Tasks'), listed(progress(job))],
    ...spans(job, nowS),
    [trans.__('Reason'), why === null ? howItEnded(job) : ''], // otherwise a note shows it
    [trans.__('Account'), visible(account ?? '')],
    [trans.__('Attempt'), restarts > 0 ? String(restarts + 1) : '']
  ]);
}

function spans(job: Job, nowS: number): Fact[] {
  const { started_s, ended_s, limit_s, start_estimate_s: startS } = job;
  const over = isFinal(job.state);
  const ended: Fact = [trans.__('Ended'), over ? moment(ended_s ?? job.state_since_s, nowS) : ''];
  if (started_s !== null) {
    const passed = duration((ended_s ?? nowS) - started_s);
    if (over) {
      return [[trans.__('Ran'), passed], ended];
    }
    // The limit of an array applies to each task.
    const isArray = Object.keys(job.tasks).length > 0;
    const limit = limit_s ? trans.__('%1 of %2', passed, duration(limit_s)) : passed;
    return [[trans.__('Running'), isArray ? '' : limit]];
  }
  return over
    ? [ended]
    : [
        [trans.__('Waiting'), duration(nowS - (job.submitted_s ?? job.created_s))],
        [trans.__('Starts'), startS !== null && startS > nowS ? `~${moment(startS, nowS)}` : '']
      ];
}

function used({ peak_memory_mib: peak, memory_mib: asked, cpu_s, cpus, elapsed_s }: Usage): Fact[] {
  const of = asked === null ? '' : ` / ${memory(asked)}`;
  const share = cpu_s && cpus && elapsed_s ? cpu_s / (cpus * elapsed_s) : null;
  return [
    [trans.__('Peak memory'), peak === null ? '' : `${memory(peak)}${of}`],
    [trans.__('CPU'), share === null ? '' : `${Math.round(100 * share)} %`]
  ];
}

function filled(all: readonly Fact[]): Fact[] {
  return all.filter(([, value]) => value !== '');
}

/** Sentences about the job, the most urgent first. */
export function notes(
  job: Job,
  freshness: Freshness,
  connection: Connection | undefined,
  nowS: number,
  reasons: readonly (string | null)[] = [job.why, job.advice]
): Note[] {
  const over = isFinal(job.state);
  const all = [
    why(job, reasons),
    note('look', job.warning),
    ...(over ? [erased(job, nowS)] : [...asked(job, nowS), ...left(job, nowS)]),
    job.transfer === null || over ? null : note('plain', moving(job.transfer)),
    over ? null : doubt(job, freshness, connection, nowS),
    over && job.inferred
      ? note(
          'look',
          trans.__('Inferred from traces: neither the job nor Slurm reported how it ended.')
        )
      : null
  ];
  return all.filter(one => one !== null);
}

/** The command that fetches the output of an ended job; null if there is nothing to fetch. */
export function attaching(job: Job): Note | null {
  const { id, state, kind, delivered, started_s } = job;
  const neverRan = started_s === null && (state === 'CANCELLED' || state === 'REJECTED');
  const hasOutput = kind === 'cell' || kind === 'program' || kind === 'script';
  return isFinal(state) && !delivered && !neverRan && hasOutput
    ? note('plain', trans.__('Run %1 to show its output here.', `\`%slurm attach ${id}\``))
    : null;
}

function note(tone: Note['tone'], text: string | null): Note | null {
  return text ? { tone, text } : null;
}

function why(job: Job, reasons: readonly (string | null)[]): Note | null {
  if (job.state === 'COMPLETED') {
    return null;
  }
  const bad = isFinal(job.state) && job.state !== 'CANCELLED';
  return note(bad ? 'bad' : 'plain', together(reasons));
}

function asked(job: Job, nowS: number): (Note | null)[] {
  if (job.cancel_requested_s === null) {
    return [];
  }
  const at = moment(job.cancel_requested_s, nowS);
  return [
    note('plain', trans.__('Cancellation requested at %1.', at)),
    sessionOf(job) === null
      ? null
      : note(
          'look',
          trans.__('Cancelling again ends the process and loses the variables of the session.')
        )
  ];
}

/** The date on which the site deletes the job's files, if it is near. */
function erased(job: Job, nowS: number): Note | null {
  if (job.erased_s === null || job.erased_s - nowS > ERASED_SOON_S) {
    return null;
  }
  return note(
    'look',
    trans.__(
      'The site deletes the files of this job on %1. Copy them to this machine: %2',
      moment(job.erased_s, nowS),
      `\`%slurm pull ${visible(job.job_dir)}\``
    )
  );
}

/**
 * Progress of a lab, and the end of a lab, kernel or session. Cells of a session show the end only
 * when it is near.
 */
function left(job: Job, nowS: number): (Note | null)[] {
  const leftS = soonLeftS(job, nowS);
  return [
    note('plain', stepOf(job)),
    leftS === null ? null : note('look', endsSoon(job, duration(leftS))),
    'idle_s' in job && job.idle_s !== null
      ? note('plain', endsIdle(job, duration(job.idle_s), nowS))
      : null
  ];
}

function endsSoon({ kind }: Job, left: string): string {
  switch (kind) {
    case 'lab':
      return trans.__('The lab ends in %1. Save your work.', left);
    case 'kernel':
      return trans.__('The kernel ends in %1 and loses its variables.', left);
    default:
      return trans.__('The session ends in %1 and loses its variables.', left);
  }
}

function endsIdle(job: LabJob | KernelJob | SessionJob, limit: string, nowS: number): string {
  switch (job.kind) {
    case 'lab':
      return trans.__('Shuts down after %1 without activity.', limit);
    case 'kernel':
      return trans.__('Shuts down after %1 without a connection.', limit);
    case 'session':
      return job.idle_since_s === null
        ? trans.__('Shuts down after %1 idle.', limit)
        : trans.__(
            'Shuts down after %1 idle (idle for %2).',
            limit,
            duration(nowS - job.idle_since_s)
          );
  }
}

function moving(transfer: Transfer): string {
  const { bytes, bytes_done: done } = transfer;
  const part = bytes ? `${Math.floor((100 * done) / bytes)} %` : memory(done / 1_048_576);
  return trans.__('Copying %1 to the cluster: %2', visible(transfer.local), part);
}

/** The reason for a state that may be old, and its age. */
function doubt(
  job: Job,
  freshness: Freshness,
  connection: Connection | undefined,
  nowS: number
): Note | null {
  if (freshness.problem !== null) {
    return old(freshness.asOf, freshness.problem.message, nowS);
  }
  if (job.problem !== null) {
    return old(job.problem_since_s, toldBeside(job.problem), nowS);
  }
  const problem = connection?.problem ?? null;
  return problem === null ? null : old(null, problem.message, nowS);
}

function old(sinceS: number | null, why: string, nowS: number): Note {
  return {
    tone: 'look',
    text:
      sinceS === null
        ? trans.__('Showing the last known state: %1', why)
        : trans.__('Last update %1. %2', moment(sinceS, nowS), why)
  };
}
