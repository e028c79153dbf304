// The output of a cell that is a job, as a widget: the bundle in the notebook names a job, and
// everything that is shown of it comes from the model. What it looks like is view.tsx's.
import type { IRenderMime } from '@jupyterlab/rendermime';
import type { CommandRegistry } from '@lumino/commands';
import type { IDisposable } from '@lumino/disposable';
import type { JSX } from 'react';
import { later } from '../later';
import { said } from '../messages';
import { JobNews } from '../model/job_news';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { WatchingWidget } from '../watching';
import type { Job } from '../wire';

export const MIME = 'application/vnd.jupyter-slurm.job+json';

const Saved = later(async () => (await import('./saved')).Saved);
const JobCardView = later(async () => (await import('./view')).JobCardView);

/** A card is there before the news of its job: so long it says that it looks for it. */
const LOOK_MS = 3_000;

/** Which job a bundle names; null: it is none of ours, whatever it may hold. */
export function jobNamed(bundle: unknown): string | null {
  const { v, id } = Object(bundle) as Record<string, unknown>;
  return v === 1 && typeof id === 'string' && /^[a-z2-7]{8}$/.test(id) ? id : null;
}

export class JobCard extends WatchingWidget implements IRenderMime.IRenderer {
  private jobId: string | null = null;
  private saved = '';
  private news: JobNews | null = null;
  private watched: IDisposable | null = null;
  private looking = 0;
  /** The job that was looked for in vain: who comes back to the card is not kept waiting again. */
  private missed: string | null = null;

  constructor(
    private readonly model: ISlurmModel,
    private readonly commands: CommandRegistry
  ) {
    super();
    this.addClass('jp-slurm-CardHost');
  }

  renderModel(bundle: IRenderMime.IMimeModel): Promise<void> {
    this.jobId = jobNamed(bundle.data[MIME]);
    this.news = this.jobId === null ? null : new JobNews(this.model, this.jobId);
    const plain = bundle.data['text/plain'];
    this.saved = typeof plain === 'string' ? plain : '';
    this.look();
    this.update();
    return this.renderPromise ?? Promise.resolve();
  }

  protected override view(): JSX.Element {
    const { model } = this;
    const job = this.job();
    if (job !== undefined) {
      return <JobCardView job={job} model={model} commands={this.commands} />;
    }
    const looks = this.jobId !== null && (this.looking !== 0 || model.freshness.asOf === null);
    return <Saved sentence={this.sentence(looks)} saved={looks ? '' : this.saved} />;
  }

  private job(): Job | undefined {
    return this.jobId === null ? undefined : this.model.jobs.get(this.jobId);
  }

  /** Instead of the card of a job that is not known. */
  private sentence(looks: boolean): string {
    if (this.jobId === null) {
      return trans.__('This names no job. What the notebook was saved with:');
    }
    if (!looks) {
      return trans.__('This Jupyter knows no such job. What the notebook was saved with:');
    }
    const { problem } = this.model.freshness;
    return problem === null
      ? trans.__('Looking for job %1…', this.jobId)
      : trans.__('Nothing is known of job %1 yet: %2', this.jobId, said(problem.message));
  }

  protected override look(): void {
    if (this.watched === null && this.isVisible && this.jobId !== null) {
      this.watched = this.model.watchJob(this.jobId);
      this.model.changed.connect(this.hear, this);
      if (this.job() === undefined && this.missed !== this.jobId) {
        this.looking = window.setTimeout(() => {
          this.looking = 0;
          this.missed = this.jobId;
          this.update();
        }, LOOK_MS);
      }
    }
  }

  protected override rest(): void {
    window.clearTimeout(this.looking);
    this.looking = 0;
    this.model.changed.disconnect(this.hear, this);
    this.watched?.dispose();
    this.watched = null;
  }

  private hear(): void {
    if (this.news?.hear() === true) {
      this.update();
    }
  }
}
