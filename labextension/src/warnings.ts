// Warnings before a lab or a kernel ends, since unsaved work would be lost.
import { Notification } from '@jupyterlab/apputils';
import { endsOf, soonLeftS } from './ends';
import { duration } from './format';
import { News, type Channel } from './status/tabs';
import type { ISlurmModel } from './tokens';
import type { Job } from './wire';

const LOOK_MS = 10_000;
const SHOWN_MS = 60_000;

/** The warning about jobs of a kind. */
export interface Ending {
  /** Return whether the job is of this kind. */
  is: (job: Job) => boolean;
  /** `left` is the time left. */
  told: (job: Job, left: string) => string;
  /** The label of the button, and its action. */
  label: string;
  act: (job: Job) => void;
}

export class Warnings {
  private readonly news: News<Job>;
  private timer = 0;

  constructor(
    private readonly model: ISlurmModel,
    private readonly ending: Ending,
    channel: Channel | null,
    private readonly nowS = () => Date.now() / 1000
  ) {
    this.news = new News(channel, jobs => jobs.forEach(job => this.tell(job)));
    model.changed.connect(this.look, this);
    this.look();
  }

  /** The clock runs only if such a job exists. */
  private look(): void {
    const jobs = [...this.model.jobs.values()].filter(
      job => this.ending.is(job) && endsOf(job) !== null
    );
    for (const job of jobs) {
      if (soonLeftS(job, this.nowS()) !== null) {
        // Warn once for each end. Using an idle lab postpones its end.
        this.news.hear(`${job.id} ends ${Math.round(endsOf(job) ?? 0)}`, job);
      }
    }
    window.clearTimeout(this.timer);
    this.timer = jobs.length === 0 ? 0 : window.setTimeout(this.look.bind(this), LOOK_MS);
  }

  private tell(job: Job): void {
    const { ending } = this;
    const left = duration((endsOf(job) ?? 0) - this.nowS());
    Notification.warning(ending.told(job, left), {
      autoClose: SHOWN_MS,
      actions: [
        {
          label: ending.label,
          callback: () => ending.act(job)
        }
      ]
    });
  }
}
