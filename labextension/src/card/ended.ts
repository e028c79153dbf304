// The end of a job, for cards and notifications. No I/O.
import { isFinal, visible } from '../format';
import { RAISED, SAID_BY_CARD, SAID_BY_STATE } from '../states';
import { trans } from '../translation';
import type { Job } from '../wire';

/** The cause of a failure; '' if the state shows it. */
export function howItEnded(job: Job): string {
  if (job.state !== 'FAILED') {
    return ''; // the exit code and the signal only show how Slurm stopped the job
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
 * The reason and the advice, unless the card already shows them. `hasRemedy` is true if a button
 * does what the advice says.
 */
export function reasonsLeft(job: Job, hasRemedy: boolean): (string | null)[] {
  const why = job.why ?? '';
  const isSaid =
    (SAID_BY_STATE as readonly string[]).includes(why) ||
    SAID_BY_CARD.some(pattern => whole(pattern).test(why));
  if (isSaid && !isFinal(job.state)) {
    return []; // the only advice for a waiting job is to wait
  }
  return [isSaid ? null : job.why, hasRemedy ? null : job.advice];
}

function whole(pattern: string): RegExp {
  return new RegExp(`^${pattern}$`);
}
