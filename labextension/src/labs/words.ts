// What is said of a lab. Pure: no DOM, no clock.
import { visible } from '../format';
import { trans } from '../translation';
import type { Job, LabJob, Row } from '../wire';

/** How far it is, once its job runs; '': that says all. */
export function stepOf(job: Job): string {
  if (!isLab(job) || job.lab === null || job.started_s === null) {
    return '';
  }
  switch (job.lab.step) {
    case 'ready':
      return trans.__('JupyterLab is ready.');
    default:
      return trans.__('JupyterLab starts.');
  }
}

/** What is said when its end is near. */
export function endingSoon(job: Job, left: string): string {
  return isLab(job) && job.idle_since_s !== null
    ? trans.__('The lab %1 ends in %2, as nobody uses it.', visible(job.name), left)
    : trans.__('The lab %1 ends in %2: save what is open in it.', visible(job.name), left);
}

export function isLab(job: Row | null | undefined): job is LabJob {
  return job?.kind === 'lab';
}
