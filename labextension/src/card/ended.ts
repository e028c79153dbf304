// The words of card and notification for a job's end, beside its state. Pure.
import { isFinal, visible } from '../format';
import { RAISED, SAID_BY_CARD, SAID_BY_STATE } from '../states';
import { trans } from '../translation';
import type { Job } from '../wire';

/** Returns the cause of a failure; '': the state says it. */
export function howItEnded(job: Job): string {
  if (job.state !== 'FAILED') {
    return ''; // code and signal only say how Slurm ended it, and how far it had begun by then
  }
  const raised = whole(RAISED).exec(job.why ?? '');
  if (raised !== null) {
    return visible(raised[1] ?? '');
  }
  if (job.signal) {
    return trans.__('killed by signal %1', job.signal);
  }
  return job.exit_code ? trans.__('exit code %1', job.exit_code) : '';
}

/**
 * Of why it waits or how it ended, and of what to do, that which the rest under the cell leaves to
 * say. `hasRemedy`: a button does what is to be done.
 */
export function reasonsLeft(job: Job, hasRemedy: boolean): (string | null)[] {
  const why = job.why ?? '';
  const isSaid =
    (SAID_BY_STATE as readonly string[]).includes(why) ||
    SAID_BY_CARD.some(pattern => whole(pattern).test(why));
  if (isSaid && !isFinal(job.state)) {
    return []; // what is advised is to wait
  }
  return [isSaid ? null : job.why, hasRemedy ? null : job.advice];
}

function whole(pattern: string): RegExp {
  return new RegExp(`^${pattern}$`);
}
