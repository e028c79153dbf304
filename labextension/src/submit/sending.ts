// Submission of a form. A retry after an unknown outcome has the same ID, so that it is one job.
import type { ISlurmModel } from '../tokens';
import type { Job, JobSpec } from '../wire';

const LETTERS = 'abcdefghijklmnopqrstuvwxyz234567';

/** A job ID of eight characters of `a-z2-7`, as the agent expects. */
function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return [...bytes].map(byte => LETTERS.charAt(byte % LETTERS.length)).join('');
}

export type Sent = { path: string } | { code: string; kind?: 'lab' };

export class Sender {
  private pending: { of: string; id: string } | null = null;

  constructor(private readonly model: ISlurmModel) {}

  async submit(cluster: string, line: string, what: Sent): Promise<Job> {
    const of = JSON.stringify([cluster, line, what]);
    if (this.pending?.of !== of) {
      this.pending = { of, id: newId() };
    }
    const { id } = this.pending;
    const job = await this.send(cluster, { line, id, ...what });
    this.pending = null;
    return job;
  }

  private async send(cluster: string, wish: { line: string; id: string } & Sent): Promise<Job> {
    if ('path' in wish) {
      return this.model.callLoggedIn(cluster, 'notebook', wish);
    }
    const spec = await this.model.call<JobSpec>('spec', wish);
    return this.model.callLoggedIn(cluster, 'submit', { spec });
  }
}
