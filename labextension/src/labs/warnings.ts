// Tells in time that a lab is about to end: what is open in it and not saved would be lost.
import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import { endsOf, SOON_S } from '../ends';
import { duration, visible } from '../format';
import { News, type Channel } from '../status/tabs';
import { CommandIDs, type ISlurmModel } from '../tokens';
import type { Job } from '../wire';
import { isLab } from './words';

const LOOK_MS = 10_000;
const SHOWN_MS = 60_000;

export class Warnings {
  private readonly news: News<Job>;
  private timer = 0;

  constructor(
    private readonly model: ISlurmModel,
    private readonly commands: CommandRegistry,
    private readonly trans: TranslationBundle,
    channel: Channel | null,
    private readonly nowS = () => Date.now() / 1000
  ) {
    this.news = new News(channel, jobs => {
      jobs.forEach(job => {
        this.tell(job);
      });
    });
    model.changed.connect(this.look, this);
  }

  /** No clock runs where there is no lab. */
  private look(): void {
    const labs = [...this.model.jobs.values()].filter(job => isLab(job) && endsOf(job) !== null);
    for (const job of labs) {
      const ends = endsOf(job) ?? Infinity;
      if (ends - this.nowS() < SOON_S) {
        // Once for each end: that of an idle lab is put off by whoever uses it.
        this.news.hear(`${job.id} ends ${Math.round(ends)}`, job);
      }
    }
    window.clearTimeout(this.timer);
    this.timer = labs.length === 0 ? 0 : window.setTimeout(this.look.bind(this), LOOK_MS);
  }

  private tell(job: Job): void {
    const { trans } = this;
    const left = duration((endsOf(job) ?? 0) - this.nowS());
    const idle = job.idle_since_s !== null;
    const message = idle
      ? trans.__('The lab %1 ends in %2, as nobody uses it.', visible(job.name), left)
      : trans.__('The lab %1 ends in %2: save what is open in it.', visible(job.name), left);
    Notification.warning(message, {
      autoClose: SHOWN_MS,
      actions: [
        {
          label: trans.__('Open the lab'),
          callback: () => void this.commands.execute(CommandIDs.openLab, { id: job.id })
        }
      ]
    });
  }
}
