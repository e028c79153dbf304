// The panel of a job as a widget. view.tsx draws it.
import type { IDisposable } from '@lumino/disposable';
import type { JSX } from 'react';
import { place } from '../card/facts';
import { stateWord, visible } from '../format';
import { jobIcon, kindIcon } from '../icons';
import { JobNews } from '../model/job_news';
import { taskNamed } from '../tasks';
import { trans } from '../translation';
import { WatchingWidget } from '../watching';
import { stateIcon } from './icons';
import { JobPanelView, type Asked, type Services } from './view';

export class JobPanel extends WatchingWidget {
  private readonly watched: IDisposable;
  private seen: IDisposable | null = null;
  private readonly news: JobNews;
  private asked: Asked | null = null;

  constructor(
    readonly jobId: string,
    private readonly services: Services,
    private readonly download: string
  ) {
    super();
    this.id = `jupyter-slurm-job-${jobId}`;
    this.title.icon = jobIcon;
    this.title.label = jobId;
    this.title.closable = true;
    this.addClass('jp-slurm');
    this.addClass('jp-slurm-Job');
    const { model } = services;
    this.watched = model.watchJobs();
    this.news = new JobNews(model, jobId);
    model.changed.connect(this.hear, this);
    this.entitle();
  }

  override dispose(): void {
    this.services.model.changed.disconnect(this.hear, this);
    this.watched.dispose();
    super.dispose();
  }

  /** Show the log of an array's task, such as `12_3`. Ignore any other ID. */
  showTask(slurmId: string | null): void {
    const task = taskNamed(this.services.model.jobs.get(this.jobId), slurmId ?? '');
    if (task !== null) {
      this.asked = { task };
      this.update();
    }
  }

  protected override view(): JSX.Element {
    const { model } = this.services;
    const job = model.jobs.get(this.jobId);
    if (job !== undefined) {
      const { services, download, asked } = this;
      return <JobPanelView {...services} job={job} download={download} asked={asked} />;
    }
    const { asOf, problem } = model.freshness;
    const text =
      asOf === null
        ? problem === null
          ? trans.__('Loading…')
          : problem.message
        : trans.__('This job is unknown to this Jupyter server. Close this tab.');
    return <p className="jp-slurm-Empty jp-slurm-Details">{text}</p>;
  }

  protected override look(): void {
    this.seen ??= this.services.model.watchJob(this.jobId);
  }

  protected override rest(): void {
    this.seen?.dispose();
    this.seen = null;
  }

  private hear(): void {
    if (this.news.hear()) {
      this.entitle();
      this.update();
    }
  }

  private entitle(): void {
    const { model } = this.services;
    const job = model.jobs.get(this.jobId);
    if (job !== undefined) {
      const name = visible(job.name);
      this.title.label = name;
      this.title.icon = stateIcon(job.state) ?? kindIcon(job);
      this.title.caption = `${name}: ${stateWord(job.state)}, ${place(job)}`;
    }
  }
}
