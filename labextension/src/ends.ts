// The latest end of a session, lab or kernel. Pure: no DOM, no clock.
import type { Row } from './wire';

/** Remaining time is shown below this; equal to that in jupyter_slurm/commands/sessions.py. */
export const SOON_S = 300;

const ENDS: ReadonlySet<string> = new Set(['session', 'lab', 'kernel']);

/** Equal to that in jupyter_slurm/commands/sessions.py; null: unknown, or never. */
export function endsOf(job: Row): number | null {
  if (job.kind === 'cell' && job.session !== null) {
    return job.session_ends_s;
  }
  if (!ENDS.has(job.kind) || job.state !== 'RUNNING') {
    return null;
  }
  const { started_s = null, limit_s = null } = job;
  const ends = [
    started_s !== null && limit_s !== null ? started_s + limit_s : Infinity,
    'idle_since_s' in job && job.idle_since_s !== null && job.idle_s !== null
      ? job.idle_since_s + job.idle_s
      : Infinity
  ];
  const first = Math.min(...ends);
  return Number.isFinite(first) ? first : null;
}
