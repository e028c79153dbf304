// The output of a cell with a job, as a widget. The bundle in the notebook names a job, and the
// model has its state. view.tsx draws it.
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime';
import type { CommandRegistry } from '@lumino/commands';
import type { IDisposable } from '@lumino/disposable';
import type { JSX } from 'react';
import { later } from '../later';
import { JobNews } from '../model/job_news';
import { runOf, type Place } from '../submit/place';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { WatchingWidget } from '../watching';
import type { Job } from '../wire';

export const MIME = 'application/vnd.jupyter-slurm.job+json';

const Saved = later(async () => (await import('./saved')).Saved);
const JobCardView = later(async () => (await import('./view')).JobCardView);

/** Time to wait for the first news of a job. */
const LOOK_MS = 3_000;

/** The job that a bundle names; null if it is not a bundle of ours. */
export function jobNamed(bundle: unknown): string | null {
  const { v, id } = Object(bundle) as Record<string, unknown>;
  return v === 1 && typeof id === 'string' && /^[a-z2-7]{8}$/.test(id) ? id : null;
}

/** Return whether the kernel reports that the cell has all output. */
function isComplete(bundle: unknown): boolean {
  return (Object(bundle) as Record<string, unknown>).complete === true;
}

export class JobCard extends WatchingWidget implements IRenderMime.IRenderer {
  private jobId: string | null = null;
  private saved = '';
  private isComplete = false;
  /** The job whose outcome the page acknowledges to the agent. */
  private acknowledged: string | null = null;
  private news: JobNews | null = null;
  private watched: IDisposable | null = null;
  private looking = 0;
  /** The job that was not found. The card does not wait for it again. */
  private missed: string | null = null;

  constructor(
    private readonly model: ISlurmModel,
    private readonly commands: CommandRegistry,
    private readonly notebooks: INotebookTracker | null
  ) {
    super();
    this.addClass('jp-slurm-CardHost');
  }

  renderModel(bundle: IRenderMime.IMimeModel): Promise<void> {
    this.jobId = jobNamed(bundle.data[MIME]);
    this.isComplete = isComplete(bundle.data[MIME]);
    this.news = this.jobId === null ? null : new JobNews(this.model, this.jobId);
    const plain = bundle.data['text/plain'];
    this.saved = typeof plain === 'string' ? plain : '';
    this.look();
    void this.acknowledge();
    this.update();
    return this.renderPromise ?? Promise.resolve();
  }

  protected override view(): JSX.Element {
    const { model } = this;
    const job = this.job();
    if (job !== undefined) {
      const cell = this.isComplete ? null : this.place();
      return <JobCardView {...{ job, model, commands: this.commands, cell }} />;
    }
    const looks = this.jobId !== null && (this.looking !== 0 || model.freshness.asOf === null);
    return <Saved sentence={this.sentence(looks)} saved={looks ? '' : this.saved} />;
  }

  /** The cell of an open notebook that shows the card. */
  private place(): Place | null {
    const panel = this.notebooks?.find(({ node }) => node.contains(this.node));
    const cell = panel?.content.widgets.find(({ node }) => node.contains(this.node));
    return panel === undefined || cell === undefined ? null : { panel, cell };
  }

  /**
   * Acknowledge the outcome after the run, since an error arrives after the card. A later run of
   * the cell has another job.
   */
  private async acknowledge(): Promise<void> {
    const job = this.job();
    if (!this.isComplete || job?.delivered !== false || this.acknowledged === job.id) {
      return;
    }
    this.acknowledged = job.id;
    try {
      await runOf(this.place())?.done;
      await this.model.call('delivered', { job_id: job.id });
    } catch {
      this.acknowledged = null; // retry at the next change
    }
  }

  private job(): Job | undefined {
    return this.jobId === null ? undefined : this.model.jobs.get(this.jobId);
  }

  /** The reason for the missing live card. */
  private sentence(looks: boolean): string {
    if (this.jobId === null || !looks) {
      return trans.__('This job is unknown to this Jupyter server. This is its saved state.');
    }
    const { problem } = this.model.freshness;
    return problem === null
      ? trans.__('Looking for job %1…', this.jobId)
      : trans.__('Job %1 not found yet: %2', this.jobId, problem.message);
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
      void this.acknowledge();
      this.update();
    }
  }
}
