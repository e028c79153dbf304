// What a card says of a job, as words: what matters now, a line of facts, and sentences that a
// person should read.
// Pure: a job and what time it is -> text. How it looks is view.tsx's.
import { endsOf, SOON_S } from '../ends';
import { duration, isFinal, memory, moment, sessionOf, stateWord, visible } from '../format';
import { together } from '../language';
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
  /** `bad`: it went wrong; `look`: worth a look; `plain`: good to know. */
  tone: 'bad' | 'look' | 'plain';
  text: string;
}

/** `123 on arandu`. */
export function place(job: Job): string {
  return trans.__('%1 on %2', job.slurm_id ?? job.id, visible(job.cluster));
}

/** Beside the state's word: what is left, why it waits and until when, how it ended. */
export function now(job: Job, nowS: number): string[] {
  const known = [howItEnded(job), ...matters(job, nowS).split(' · ')];
  const word = stateWord(job.state);
  return known.map(visible).filter(part => part !== '' && part !== word);
}

/** Returns the counts of an array that waits; in any other state `time` has them. */
export function waiting(job: Job): string[] {
  return job.state === 'PENDING' ? progress(job) : [];
}

/** Where it runs and with what, and what it has used. */
export function facts(job: Job): string[] {
  const where = job.nodes.map(visible).join(', ') || visible(job.partition ?? '');
  return [
    where,
    job.gpus > 0 ? trans._n('%1 GPU', '%1 GPUs', job.gpus) : '',
    job.image === null ? '' : `${visible(job.image)} (${job.runtime})`,
    // Of an image it is the image's, so only of the node's it has to be said.
    job.image === null && job.python !== null ? `Python ${job.python.join('.')}` : '',
    ...(isFinal(job.state) && job.usage !== null ? used(job.usage) : [])
  ].filter(part => part !== '');
}

/** How far an array is, how long it has run or waited, and how it ended. */
export function time(job: Job, nowS: number): string[] {
  const ended = job.why === null ? howItEnded(job) : ''; // else a sentence says it
  return [...progress(job), span(job, nowS), ended].filter(part => part !== '');
}

function span(job: Job, nowS: number): string {
  if (job.started_s !== null) {
    const passed = duration((job.ended_s ?? nowS) - job.started_s);
    if (isFinal(job.state)) {
      return trans.__('ran for %1, ended %2', passed, moment(job.ended_s ?? nowS, nowS));
    }
    if (Object.keys(job.tasks).length > 0) {
      return ''; // the limit is each task's
    }
    return job.limit_s ? trans.__('%1 of %2', passed, duration(job.limit_s)) : passed;
  }
  if (isFinal(job.state)) {
    return trans.__('ended %1', moment(job.ended_s ?? job.state_since_s, nowS));
  }
  const waits = trans.__('for %1', duration(nowS - (job.submitted_s ?? job.created_s)));
  if (job.start_estimate_s === null || job.start_estimate_s <= nowS) {
    return waits;
  }
  const starts = trans.__('starts ~%1', moment(job.start_estimate_s, nowS));
  return `${waits} · ${starts}`;
}

function used(usage: Usage): string[] {
  const { peak_memory_mib: peak, memory_mib: asked, cpu_s, cpus, elapsed_s } = usage;
  const parts: string[] = [];
  if (peak !== null) {
    parts.push(
      asked === null
        ? trans.__('%1 of memory', memory(peak))
        : trans.__('%1 of %2 of memory', memory(peak), memory(asked))
    );
  }
  if (cpu_s !== null && cpus && elapsed_s) {
    const share = Math.round((100 * cpu_s) / (cpus * elapsed_s));
    parts.push(trans._n('%2 %% of %1 CPU', '%2 %% of %1 CPUs', cpus, share));
  }
  return parts;
}

/** What a person should read beside the rest, the most urgent first. */
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
          trans.__('The end was concluded from traces: neither the job nor Slurm said it.')
        )
      : null
  ];
  return all.filter(one => one !== null);
}

/** How to fetch the output of an ended job in a notebook; null: there is none to fetch. */
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
    note('plain', trans.__('It was asked to end at %1.', at)),
    sessionOf(job) === null
      ? null
      : note('look', trans.__('Asked again, its process ends, and what the session holds is lost.'))
  ];
}

/** Until when the site keeps the files of a job that has ended, once that is near. */
function erased(job: Job, nowS: number): Note | null {
  if (job.erased_s === null || job.erased_s - nowS > ERASED_SOON_S) {
    return null;
  }
  return note(
    'look',
    trans.__(
      'The site keeps its files until %1; %2 copies them to this machine.',
      moment(job.erased_s, nowS),
      `\`%slurm pull ${visible(job.job_dir)}\``
    )
  );
}

/** How far a lab is, and what is left of what ends by itself; near a session's end in its cells, too. */
function left(job: Job, nowS: number): (Note | null)[] {
  const leftS = (endsOf(job) ?? Infinity) - nowS;
  return [
    note('plain', stepOf(job)),
    leftS < SOON_S ? note('look', endsSoon(job, duration(leftS))) : null,
    'idle_s' in job && job.idle_s !== null
      ? note('plain', endsIdle(job, duration(job.idle_s), nowS))
      : null
  ];
}

function endsSoon({ kind }: Job, left: string): string {
  switch (kind) {
    case 'lab':
      return trans.__('The lab ends in %1: save what is open in it.', left);
    case 'kernel':
      return trans.__('The kernel ends in %1; its variables are lost then.', left);
    default:
      return trans.__('The session ends in %1; what it holds is lost then.', left);
  }
}

function endsIdle(job: LabJob | KernelJob | SessionJob, limit: string, nowS: number): string {
  switch (job.kind) {
    case 'lab':
      return trans.__('It ends after %1 in which nobody uses it.', limit);
    case 'kernel':
      return trans.__('It ends after %1 in which nobody is connected.', limit);
    case 'session':
      return job.idle_since_s === null
        ? trans.__('It ends after %1 without a cell.', limit)
        : trans.__(
            'It ends after %1 without a cell; it is idle for %2.',
            limit,
            duration(nowS - job.idle_since_s)
          );
  }
}

function moving(transfer: Transfer): string {
  const { bytes, bytes_done: done } = transfer;
  const part = bytes ? `${Math.floor((100 * done) / bytes)} %` : memory(done / 1_048_576);
  return trans.__('%1 goes to the cluster: %2', visible(transfer.local), part);
}

/** Why what is shown may be old, and since when. */
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
        ? trans.__('Nothing newer is known: %1', why)
        : trans.__('Nothing newer is known since %1: %2', moment(sinceS, nowS), why)
  };
}
