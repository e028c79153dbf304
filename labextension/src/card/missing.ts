// Detection of cells that may lack output of their job, as after a reload. showing.ts fetches the
// output.
import { isFinal } from '../format';
import { isCode, runOf, type Place } from '../submit/place';
import type { Job } from '../wire';

/** The source of a cell that shows only a job's output. */
const OF_A_JOB = /^\s*%%(?:slurm|sbatch)\b|^\s*%slurm[ \t]+(?:attach|run)\b[^\n]*\s*$/;
const WITH_OUTPUT: readonly Job['kind'][] = ['cell', 'program', 'script'];

/** `place` is a cell that the kernel has not marked as complete. */
export function isMissing(job: Job, place: Place): boolean {
  return (
    isFinal(job.state) &&
    job.state !== 'REJECTED' &&
    // The start of a short batch script may be unknown.
    (job.started_s !== null || job.state !== 'CANCELLED') &&
    WITH_OUTPUT.includes(job.kind) &&
    OF_A_JOB.test(place.cell.model.sharedModel.getSource()) &&
    !isUnderWay(place)
  );
}

/** Return whether this page runs the cell, so that more output may arrive. */
function isUnderWay(place: Place): boolean {
  const run = runOf(place);
  const { cell } = place;
  return run?.isDisposed === false && isCode(cell) && cell.model.executionCount === null;
}
