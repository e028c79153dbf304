// Words for remote kernels. No I/O.
import { visible } from '../format';
import { quoted } from '../submit/words';
import { trans } from '../translation';
import type { Job, KernelJob, RemoteKernel, Row } from '../wire';

export function isKernel(job: Row | null | undefined): job is KernelJob {
  return job?.kind === 'kernel';
}

/** The warning before the end of a kernel. */
export function endingSoon(job: Job, left: string): string {
  return trans.__('The kernel of %1 ends in %2 and loses its variables.', visible(job.name), left);
}

/** The options of the kernel's jobs, except the cluster. */
export function optionsOf({ words, cluster }: RemoteKernel): string {
  const at = words.findIndex(
    (word, index) =>
      (word === '--cluster' && words[index + 1] === cluster) || word === `--cluster=${cluster}`
  );
  const gone = at < 0 ? 0 : words[at] === '--cluster' ? 2 : 1;
  const rest = words.filter((_, index) => index < at || index >= at + gone);
  return visible(rest.map(quoted).join(' '));
}
