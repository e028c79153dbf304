// Notifications about the start and end of jobs. One notification at a time is over the page, and
// later news changes it. Users can also request notifications by the browser. Other news has its
// own notifications. tabs.ts decides which tab notifies.
import { Notification as LabNotification } from '@jupyterlab/apputils';
import type { IStateDB } from '@jupyterlab/statedb';
import type { CommandRegistry } from '@lumino/commands';
import type { IDisposable } from '@lumino/disposable';
import { howItEnded, reasonsLeft } from '../card/ended';
import { isFinal, stateWord, tone, visible } from '../format';
import { dotted, listed, numeral } from '../language';
import { CommandIDs, type INotifier, type ISlurmModel, type Lead } from '../tokens';
import { trans } from '../translation';
import type { Job, JobState } from '../wire';
import type { NotifySettings } from './settings';
import { News, type Channel } from './tabs';

const SHOWN_MS = 6_000;
const FAILURE_SHOWN_MS = 20_000;
/** A submission waits this long for Slurm, and shows a refusal itself (jobs/service.py). */
const SUBMITTED_S = 20;
/** Maximum in JupyterLab's list. The oldest notifications are removed. */
const MOST_LISTED = 5;
/** The key of the muted jobs in the state database. */
const MUTED = 'jupyter-slurm:muted';
const MOST_MUTED = 500;
/** Number of failed jobs that a summary names. */
const NAMED = 3;

type Kind = 'start' | 'end';

interface OfJob {
  kind: Kind;
  job: Job;
}

/** The options of a notification. */
type Shown = Required<Pick<LabNotification.IOptions<never>, 'actions' | 'autoClose'>> & {
  type: 'error' | 'success' | 'info';
};

export class Notifier implements INotifier {
  /** The notification over the page, or the last one, with its news by job. */
  private shown: { id: string; untilMs: number; told: Map<string, OfJob> } | null = null;
  /** Notifications about a single job, by job. */
  private readonly alone = new Map<string, string>();
  /** The listed notifications, the oldest first. */
  private readonly listed: string[] = [];
  /** Jobs whose result, and with it their end, was announced. */
  private readonly announced = new Set<string>();
  /** Jobs without notifications. */
  private readonly muted = new Set<string>();
  private readonly news: News<OfJob>;
  private settings: NotifySettings | null = null;
  private watched: IDisposable | null = null;

  constructor(
    private readonly model: ISlurmModel,
    private readonly commands: CommandRegistry,
    channel: Channel | null,
    private readonly state: IStateDB | null = null
  ) {
    this.news = new News(channel, pieces => {
      const unseen = pieces.filter(({ job }) => !this.model.isSeen(job.id));
      if (unseen.length > 0) {
        this.tell(unseen);
      }
    });
    model.stateChanged.connect((_, { job, before }) => {
      const kind = kindOf(job, before);
      if (kind !== null && this.wants(kind, job)) {
        this.news.hear(`${job.id} ${kind} ${job.restarts}`, { kind, job });
      }
    });
  }

  /** Apply the settings. The first call starts notifications. */
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

  /** Stop notifications about the job, and remove its last one. */
  mute(id: string): void {
    this.muted.add(id);
    void this.state?.save(MUTED, { ids: [...this.muted].slice(-MOST_MUTED) });
    const before = this.alone.get(id);
    if (before !== undefined) {
      LabNotification.dismiss(before);
    }
  }

  /** Restore the muted jobs. */
  async recall(): Promise<void> {
    const { ids } = Object(await this.state?.fetch(MUTED)) as { ids?: unknown };
    for (const id of Array.isArray(ids) ? ids : []) {
      this.muted.add(String(id));
    }
  }

  private wants(kind: Kind, job: Job): boolean {
    const { settings } = this;
    if (settings === null || this.muted.has(job.id) || settings.mutedKinds.has(job.kind)) {
      return false;
    }
    if (job.state === 'REJECTED' && (job.ended_s ?? 0) - job.created_s < SUBMITTED_S) {
      return false;
    }
    const { start, end } = settings;
    return kind === 'start' ? start : end === 'always' || (end === 'failed' && wentWrong(job));
  }

  /** Called when the user enables browser notifications. Browsers ask only after a user action. */
  private async askBrowser(): Promise<void> {
    const answer = 'Notification' in window ? await Notification.requestPermission() : 'denied';
    if (answer !== 'granted') {
      LabNotification.warning(
        trans.__(
          "This browser blocks notifications from this page. Allow them in the browser's settings."
        )
      );
    }
  }

  /** `job` is the ID of the job with this result. */
  say(message: string, lead: Lead | null, job: string | null = null): void {
    if (job !== null) {
      this.announced.add(job);
      if (this.shown?.told.has(job)) {
        this.tell([]);
      }
    }
    const autoClose = this.settings?.quiet ? 0 : SHOWN_MS;
    const actions = this.acting(lead);
    this.list(LabNotification.emit(message, 'success', { autoClose, actions }));
  }

  /** Show one notification at a time. It summarises later news. */
  private tell(pieces: readonly OfJob[]): void {
    const seen = this.shown !== null && Date.now() < this.shown.untilMs ? this.shown : null;
    const told = new Map(seen?.told);
    for (const piece of pieces) {
      told.set(piece.job.id, piece);
    }
    for (const [id, { kind, job }] of told) {
      if (kind === 'end' && this.announced.has(id) && !wentWrong(job)) {
        told.delete(id);
      }
    }
    const all = [...told.values()];
    if (all.length === 0) {
      this.shown = null;
      LabNotification.dismiss(seen?.id ?? '');
      return;
    }
    const alone = all.length === 1 ? (all[0]?.job ?? null) : null;
    const message = this.sum(all);
    const failed = all.some(({ job }) => wentWrong(job));
    const isGood = alone !== null && tone(alone.state) === 'done';
    const shownMs = failed ? FAILURE_SHOWN_MS : SHOWN_MS;
    const lead = this.leadOf(all);
    const id = this.put(seen?.id ?? '', alone, message, {
      type: failed ? 'error' : isGood ? 'success' : 'info',
      autoClose: this.settings?.quiet ? 0 : shownMs,
      actions: [
        ...this.acting(lead),
        ...(alone === null || isFinal(alone.state) ? [] : [this.muting(alone)])
      ]
    });
    this.shown = { id, untilMs: Date.now() + shownMs, told };
    if (alone !== null) {
      this.alone.set(alone.id, id);
    }
    if (lead !== null) {
      this.tellByBrowser(message, lead);
    }
  }

  /** Change the notification `seen` if it is still over the page. Otherwise show another. */
  private put(seen: string, alone: Job | null, message: string, { type, ...how }: Shown): string {
    // A notification that JupyterLab has not drawn yet would appear without the change.
    const isDrawn = how.autoClose === 0 || document.getElementById(seen) !== null;
    if (seen !== '' && isDrawn && LabNotification.update({ id: seen, message, type, ...how })) {
      return seen;
    }
    // A change of a closed notification would not be visible.
    const before = seen === '' && alone !== null ? this.alone.get(alone.id) : seen;
    if (before !== undefined && before !== '') {
      LabNotification.dismiss(before);
    }
    const id = LabNotification.emit(message, type, how);
    this.list(id);
    return id;
  }

  private leadOf(pieces: readonly OfJob[]): Lead | null {
    const [first] = pieces;
    if (first === undefined) {
      return null;
    }
    return pieces.length === 1
      ? {
          label: trans.__('Show log'),
          command: CommandIDs.openJob,
          args: { id: first.job.id }
        }
      : { label: trans.__('Show jobs'), command: CommandIDs.showSidebar, args: {} };
  }

  private acting(lead: Lead | null): LabNotification.IAction[] {
    if (lead === null) {
      return [];
    }
    const { label, command, args } = lead;
    return [{ label, callback: () => void this.commands.execute(command, args) }];
  }

  private muting({ id }: Job): LabNotification.IAction {
    return {
      label: trans.__('Mute this job'),
      callback: () => void this.commands.execute(CommandIDs.mute, { id })
    };
  }

  private list(id: string): void {
    this.listed.push(id);
    for (const old of this.listed.splice(0, this.listed.length - MOST_LISTED)) {
      LabNotification.dismiss(old);
    }
  }

  private sum(pieces: readonly OfJob[]): string {
    const [first] = pieces;
    if (first !== undefined && pieces.length === 1) {
      return this.sentence(first.job);
    }
    const ended = pieces.filter(piece => piece.kind === 'end');
    const failed = ended.filter(piece => wentWrong(piece.job)).map(({ job }) => visible(job.name));
    const started = pieces.length - ended.length;
    const allFailed = failed.length === ended.length;
    const all = [...new Set(failed)];
    const rest = all.length - NAMED;
    const more = rest > 0 ? ` ${trans._n('and %2 more', 'and %2 more', rest, numeral(rest))}` : '';
    const names = listed(all.slice(0, NAMED)) + more;
    const failures = allFailed
      ? trans._n('%1 job failed', '%1 jobs failed', failed.length)
      : trans._n('%1 of them failed', '%1 of them failed', failed.length);
    return listed([
      started > 0 ? trans._n('%1 job has started', '%1 jobs have started', started) : '',
      ended.length > 0 && !allFailed
        ? trans._n('%1 job has ended', '%1 jobs have ended', ended.length)
        : '',
      failed.length > 0 ? `${failures}: ${names}` : ''
    ]);
  }

  private tellByBrowser(message: string, { command, args }: Lead): void {
    const may = 'Notification' in window && Notification.permission === 'granted';
    if (this.settings?.browser && may && document.hidden) {
      const told = new Notification('Slurm', { body: message, tag: 'jupyter-slurm' });
      told.onclick = () => {
        window.focus();
        void this.commands.execute(command, args);
        told.close();
      };
    }
  }

  private sentence(job: Job): string {
    const name = visible(job.name);
    const state = dotted([stateWord(job.state), howItEnded(job)]);
    const [why] = wentWrong(job) ? reasonsLeft(job, true) : [];
    return why
      ? trans.__('%1: %2. %3', name, state, visible(why))
      : trans.__('%1: %2', name, state);
  }
}

/** Return the kind of news of a state change; null if it is not news. */
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
