// Tells in time that a lab or a kernel is about to end: what is in it and not saved would be lost.
import { Notification } from '@jupyterlab/apputils';
import { endsOf, SOON_S } from './ends';
import { duration } from './format';
import { News, type Channel } from './status/tabs';
import type { ISlurmModel } from './tokens';
import type { Job } from './wire';

const LOOK_MS = 10_000;
const SHOWN_MS = 60_000;

/** What is told of those that end. */
export interface Ending {
  /** Whether it is one of those. */
  is: (job: Job) => boolean;
  /** `left`: how long it still has. */
  told: (job: Job, left: string) => string;
  /** What the button says, and does. */
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

  /** No clock runs where there is none. */
  private look(): void {
    const jobs = [...this.model.jobs.values()].filter(
      job => this.ending.is(job) && endsOf(job) !== null
    );
    for (const job of jobs) {
      const ends = endsOf(job) ?? Infinity;
      if (ends - this.nowS() < SOON_S) {
        // Once for each end: that of an idle lab is put off by whoever uses it.
        this.news.hear(`${job.id} ends ${Math.round(ends)}`, job);
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
