// Words for labs. No I/O.
import { visible } from '../format';
import { trans } from '../translation';
import type { Job, LabJob, Row } from '../wire';

/** The state of JupyterLab once its job runs; otherwise ''. */
export function stepOf(job: Job): string {
  if (!isLab(job) || job.lab === null || job.started_s === null) {
    return '';
  }
  return job.lab.step === 'ready'
    ? trans.__('JupyterLab is ready.')
    : trans.__('JupyterLab is starting.');
}

/** The warning before the end of a lab. */
export function endingSoon(job: Job, left: string): string {
  return isLab(job) && job.idle_since_s !== null
    ? trans.__('The lab %1 ends in %2 because it is idle.', visible(job.name), left)
    : trans.__('The lab %1 ends in %2. Save your work.', visible(job.name), left);
}

export function isLab(job: Row | null | undefined): job is LabJob {
  return job?.kind === 'lab';
}
