// Saving of the executed copies of notebooks that ran as jobs. The agent knows which copies were
// delivered, so a new page saves the copies that closed pages missed.
import { problemOf } from '../model/model';
import { isFinal } from '../format';
import type { ISlurmModel } from '../tokens';
import type { Job, Problem } from '../wire';

const AGAIN_MS = 60_000;

/** Return whether the job ran a whole notebook. The job of a cell has a fingerprint. */
export function isHeadless(job: Job): boolean {
  return (
    job.kind === 'cell' &&
    job.session === null &&
    job.fingerprint === null &&
    job.notebook?.endsWith('.ipynb') === true
  );
}

export interface Told {
  /** Called when the copy was saved. */
  written: (job: Job, path: string) => void;
  failed: (job: Job, problem: Problem) => void;
}

/** Runs as long as the page exists. */
export class ExecutedCopies {
  private readonly tried = new Set<string>();

  constructor(
    private readonly model: ISlurmModel,
    private readonly told: Told
  ) {}

  begin(): void {
    this.model.watchJobs();
    this.model.changed.connect(this.hear, this);
    this.hear();
  }

  private hear(): void {
    for (const job of this.model.jobs.values()) {
      if (!job.delivered && isFinal(job.state) && isHeadless(job) && !this.tried.has(job.id)) {
        this.tried.add(job.id);
        void this.bring(job);
      }
    }
  }

  /** Only one of several tabs saves the copy. */
  private async bring(job: Job): Promise<void> {
    await navigator.locks.request(
      `jupyter-slurm:executed:${job.id}`,
      { ifAvailable: true },
      async lock => {
        if (lock === null || this.model.jobs.get(job.id)?.delivered !== false) {
          return;
        }
        try {
          const { path } = await this.model.call<{ path: string }>('executed', { job_id: job.id });
          this.told.written(job, path);
        } catch (error) {
          this.fail(job, problemOf(error));
        }
      }
    );
  }

  private fail(job: Job, problem: Problem): void {
    if (problem.transient || problem.code === 'login-needed') {
      window.setTimeout(() => {
        this.tried.delete(job.id);
        this.hear();
      }, AGAIN_MS);
    } else if (problem.code !== 'request') {
      this.told.failed(job, problem); // with the code `request`, there is nothing to copy
    }
  }
}
