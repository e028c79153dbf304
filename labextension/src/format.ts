// Spans, moments, sizes and states as people read them. Pure: no clock, no DOM, no model.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Connection, Job, JobState } from './wire';

/** As people say it, two units at most: `7 s`, `2 min 5 s`, `1 h 1 min`, `2 d 7 h`. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const units: [number, string, number, string][] = [
    [86_400, 'd', 3_600, 'h'],
    [3_600, 'h', 60, 'min'],
    [60, 'min', 1, 's']
  ];
  for (const [size, unit, nextSize, nextUnit] of units) {
    if (whole >= size) {
      const rest = Math.floor((whole % size) / nextSize);
      return `${Math.floor(whole / size)} ${unit}${rest > 0 ? ` ${rest} ${nextUnit}` : ''}`;
    }
  }
  return `${whole} s`;
}

/** Local time of a UTC epoch second, of 24 hours; with the date unless it is today's. */
export function moment(atS: number, nowS: number, locale?: string): string {
  const at = new Date(atS * 1000);
  const now = new Date(nowS * 1000);
  const today = at.toDateString() === now.toDateString();
  return today
    ? at.toLocaleTimeString(locale, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
    : at.toLocaleString(locale, {
        month: 'short',
        day: 'numeric',
        hour: '2-digit',
        minute: '2-digit',
        hourCycle: 'h23'
      });
}

/** In the unit that people would use: `512 MiB`, `1.5 GiB`. */
export function memory(mib: number): string {
  return mib < 1024 ? `${mib.toFixed(0)} MiB` : `${(mib / 1024).toFixed(1)} GiB`;
}

/** One line without control characters, and without marks that turn what follows it around. */
export function visible(text: string): string {
  return text.replace(/\s/gu, ' ').replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, '\ufffd');
}

export type Tone = 'waiting' | 'running' | 'done' | 'failed' | 'ended' | 'unknown';

const FINAL: ReadonlySet<string> = new Set<JobState>([
  'REJECTED',
  'LOST',
  'COMPLETED',
  'CANCELLED',
  'FAILED',
  'TIMEOUT',
  'DEADLINE',
  'NODE_FAIL',
  'BOOT_FAIL',
  'PREEMPTED',
  'OUT_OF_MEMORY'
]);
const RUNNING: ReadonlySet<string> = new Set<JobState>([
  'RUNNING',
  'COMPLETING',
  'FINISHING',
  'STAGE_OUT',
  'SIGNALING',
  'RESIZING',
  'CONFIGURING'
]);

/** Nothing will change any more. */
/** The session that a cell runs in; null: it is in none, or is no cell. */
export function sessionOf(job: Job): string | null {
  return job.kind === 'cell' ? job.session : null;
}

export function isFinal(state: string): boolean {
  return FINAL.has(state);
}

export function isRunning(state: string): boolean {
  return RUNNING.has(state);
}

/** Slurm can be asked. */
export function isOpen({ state }: Connection): boolean {
  return state === 'open' || state === 'local';
}

/** How a state is coloured; the state's own word stands beside it always. */
export function tone(state: string): Tone {
  switch (state) {
    case 'COMPLETED':
      return 'done';
    case 'CANCELLED':
    case 'REVOKED':
      return 'ended';
    case 'UNKNOWN':
    case 'LOST':
      return 'unknown';
    default:
      return isRunning(state) ? 'running' : isFinal(state) ? 'failed' : 'waiting';
  }
}

/** A state as a word for people. */
export function stateWord(state: string, trans: TranslationBundle): string {
  switch (state) {
    case 'SUBMITTING':
      return trans.__('submitting');
    case 'REJECTED':
      return trans.__('refused');
    case 'UNKNOWN':
      return trans.__('not known');
    case 'FINISHING':
      return trans.__('ending');
    case 'LOST':
      return trans.__('lost');
    case 'PENDING':
      return trans.__('waiting');
    case 'CONFIGURING':
      return trans.__('node starts');
    case 'RUNNING':
      return trans.__('running');
    case 'SUSPENDED':
      return trans.__('suspended');
    case 'COMPLETING':
      return trans.__('ending');
    case 'COMPLETED':
      return trans.__('done');
    case 'CANCELLED':
      return trans.__('cancelled');
    case 'FAILED':
      return trans.__('failed');
    case 'TIMEOUT':
      return trans.__('out of time');
    case 'OUT_OF_MEMORY':
      return trans.__('out of memory');
    case 'NODE_FAIL':
      return trans.__('node failed');
    case 'BOOT_FAIL':
      return trans.__('node did not boot');
    case 'PREEMPTED':
      return trans.__('preempted');
    case 'DEADLINE':
      return trans.__('past its deadline');
    default:
      return state.toLowerCase().replace(/_/g, ' ');
  }
}

/** The part of its time limit that a running job has used: 0 to 1; null where there is no limit. */
export function timeUsed(
  job: Pick<Job, 'started_s' | 'ended_s' | 'limit_s'>,
  nowS: number
): number | null {
  if (job.started_s === null || !job.limit_s) {
    return null;
  }
  const elapsed = (job.ended_s ?? nowS) - job.started_s;
  return Math.min(1, Math.max(0, elapsed / job.limit_s));
}
