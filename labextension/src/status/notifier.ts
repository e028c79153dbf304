// What is told of jobs that start and end: one notification a job, changed in place, and by the
// browser itself where somebody wants that. Which tab tells it is tabs.ts's.
import { Notification as LabNotification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { IDisposable } from '@lumino/disposable';
import { isFinal, stateWord, tone, visible } from '../format';
import { said } from '../said';
import { CommandIDs, type ISlurmModel } from '../tokens';
import type { Job, JobState } from '../wire';
import type { NotifySettings } from './settings';
import { News, type Channel } from './tabs';

const SHOWN_MS = 6_000;
const FAILURE_SHOWN_MS = 20_000;
/** More at once are told as one. */
const MOST = 3;

type Kind = 'start' | 'end';

interface Piece {
  kind: Kind;
  job: Job;
}

export class Notifier {
  private readonly shown = new Map<string, { id: string; atMs: number }>();
  private readonly news: News<Piece>;
  private settings: NotifySettings | null = null;
  private watched: IDisposable | null = null;

  constructor(
    private readonly model: ISlurmModel,
    private readonly commands: CommandRegistry,
    private readonly trans: TranslationBundle,
    channel: Channel | null
  ) {
    this.news = new News(channel, pieces => {
      this.tell(pieces);
    });
    model.stateChanged.connect((_, { job, before }) => {
      const kind = kindOf(job, before);
      if (kind !== null && this.wants(kind, job)) {
        this.news.hear(`${job.id} ${kind} ${job.restarts}`, { kind, job });
      }
    });
  }

  /** From the first settings on there are notifications. */
  follow(settings: NotifySettings): void {
    const before = this.settings;
    this.settings = settings;
    if (settings.browser && before !== null && !before.browser) {
      void this.askBrowser();
    }
    const old = this.watched;
    const wanted = settings.start || settings.end !== 'never';
    this.watched = wanted ? this.model.watchJobs({ background: settings.browser }) : null;
    old?.dispose();
  }

  private wants(kind: Kind, job: Job): boolean {
    if (this.settings === null) {
      return false;
    }
    const { start, end } = this.settings;
    return kind === 'start' ? start : end === 'always' || (end === 'failed' && wentWrong(job));
  }

  /** Only now, when somebody has switched it on: browsers ask on a person's deed alone. */
  private async askBrowser(): Promise<void> {
    const answer = 'Notification' in window ? await Notification.requestPermission() : 'denied';
    if (answer !== 'granted') {
      LabNotification.warning(
        this.trans.__('This browser does not let the page notify you. Its own settings say why.')
      );
    }
  }

  private tell(pieces: Piece[]): void {
    if (pieces.length > MOST) {
      this.tellMany(pieces);
      return;
    }
    for (const { job } of pieces) {
      const message = this.sentence(job);
      const failed = wentWrong(job);
      const how = {
        autoClose: this.settings?.quiet ? 0 : failed ? FAILURE_SHOWN_MS : SHOWN_MS,
        actions: [
          {
            label: this.trans.__('Show log'),
            callback: () => void this.commands.execute(CommandIDs.openJob, { id: job.id })
          }
        ]
      };
      const type = failed ? 'error' : tone(job.state) === 'done' ? 'success' : 'info';
      const known = this.shown.get(job.id);
      const seen = known !== undefined && Date.now() - known.atMs < SHOWN_MS;
      if (!seen || !LabNotification.update({ id: known.id, message, type, ...how })) {
        if (known !== undefined) {
          // It is over the page no more; changed in place nobody would see it.
          LabNotification.dismiss(known.id);
        }
        this.shown.set(job.id, { id: LabNotification.emit(message, type, how), atMs: Date.now() });
      }
      this.tellByBrowser(message, job.id, CommandIDs.openJob);
    }
  }

  /** An array that ends is no hundred notifications. */
  private tellMany(pieces: Piece[]): void {
    const { trans } = this;
    const ended = pieces.filter(piece => piece.kind === 'end');
    const failed = ended.filter(piece => wentWrong(piece.job)).length;
    const started = pieces.length - ended.length;
    const message = [
      started > 0 ? trans._n('%1 job has started', '%1 jobs have started', started) : '',
      ended.length > 0 ? trans._n('%1 job has ended', '%1 jobs have ended', ended.length) : '',
      failed > 0 ? trans._n('%1 of them failed', '%1 of them failed', failed) : ''
    ]
      .filter(part => part !== '')
      .join(', ');
    LabNotification.emit(message, failed > 0 ? 'error' : 'info', {
      autoClose: this.settings?.quiet ? 0 : SHOWN_MS,
      actions: [
        {
          label: trans.__('Show jobs'),
          callback: () => void this.commands.execute(CommandIDs.showSidebar)
        }
      ]
    });
    this.tellByBrowser(message, 'many', CommandIDs.showSidebar);
  }

  private tellByBrowser(message: string, tag: string, command: string): void {
    const may = 'Notification' in window && Notification.permission === 'granted';
    if (this.settings?.browser && may && document.hidden) {
      const told = new Notification('Slurm', { body: message, tag: `jupyter-slurm ${tag}` });
      told.onclick = () => {
        window.focus();
        void this.commands.execute(command, { id: tag });
        told.close();
      };
    }
  }

  private sentence(job: Job): string {
    const { trans } = this;
    const name = visible(job.name);
    const state = stateWord(job.state, trans);
    const why = wentWrong(job) ? job.why : null;
    return why
      ? trans.__('%1: %2. %3', name, state, visible(said(why, trans)))
      : trans.__('%1: %2', name, state);
  }
}

/** What a change of state is, to somebody who waits; null: nothing. */
export function kindOf(job: Job, before: JobState): Kind | null {
  if (isFinal(job.state)) {
    return isFinal(before) ? null : 'end';
  }
  const waited = tone(before) === 'waiting' && before !== 'SUSPENDED' && before !== 'STOPPED';
  return job.state === 'RUNNING' && (waited || before === 'CONFIGURING') ? 'start' : null;
}

function wentWrong(job: Job): boolean {
  return isFinal(job.state) && !['done', 'ended'].includes(tone(job.state));
}
