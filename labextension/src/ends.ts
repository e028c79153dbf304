// When a session, a lab or a kernel ends at the latest. Pure: no DOM, no clock.
import type { Row } from './wire';

/** Below which what is left is told; as jupyter_slurm/commands/sessions.py has it. */
export const SOON_S = 300;

const ENDS: ReadonlySet<string> = new Set(['session', 'lab', 'kernel']);

/** As jupyter_slurm/commands/sessions.py has it; null: nobody knows, or never. */
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
