// The latest end of a session, lab or kernel. No DOM, no clock.
import type { Row } from './wire';

/**
 * Limit below which the remaining time is shown, equal to the limit in jupyter_slurm/views/card.py.
 */
const SOON_S = 300;

/**
 * An idle timeout is nearly over when less than this share of it is left. A fixed limit would warn
 * too often if the timeout is short.
 */
const IDLE_SHARE = 0.2;

const ENDS: ReadonlySet<string> = new Set(['session', 'lab', 'kernel']);

/**
 * Return the time of the end in UTC epoch seconds; null if it is unknown or unlimited.
 * `left_s` in jupyter_slurm/views/card.py computes the time left in the same way.
 */
export function endsOf(job: Row): number | null {
  const first = Math.min(endOfLimit(job), endOfIdle(job));
  return Number.isFinite(first) ? first : null;
}

/** Return the seconds left if the time limit or the idle time is nearly over; otherwise null. */
export function soonLeftS(job: Row, nowS: number): number | null {
  const [limitLeftS, idleLeftS] = [endOfLimit(job) - nowS, endOfIdle(job) - nowS];
  const idleS = 'idle_s' in job ? (job.idle_s ?? 0) : 0;
  const isSoon = limitLeftS < SOON_S || idleLeftS < Math.min(SOON_S, idleS * IDLE_SHARE);
  return isSoon ? Math.min(limitLeftS, idleLeftS) : null;
}

function endOfLimit(job: Row): number {
  if (job.kind === 'cell' && job.session !== null) {
    return job.session_ends_s ?? Infinity;
  }
  const { started_s: startedS, limit_s: limitS } = job;
  return isService(job) && startedS != null && limitS != null ? startedS + limitS : Infinity;
}

function endOfIdle(job: Row): number {
  return isService(job) && 'idle_since_s' in job && job.idle_since_s !== null && job.idle_s !== null
    ? job.idle_since_s + job.idle_s
    : Infinity;
}

function isService({ kind, state }: Row): boolean {
  return ENDS.has(kind) && state === 'RUNNING';
}
