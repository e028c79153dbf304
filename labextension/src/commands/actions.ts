// What is told of an action on many jobs: how far it is, with a way to stop it, and once what became
// of it, whichever page began it. No steering.
import { Notification } from '@jupyterlab/apputils';
import { visible } from '../format';
import { numeral } from '../language';
import { News, type Channel } from '../status/tabs';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Action } from '../wire';
import { announce, tell } from './telling';

/** One that ends sooner is told of at its end only. */
const UNSEEN_MS = 600;
/** Of those refused, by their ids. */
const NAMED = 5;

export class ActionNews {
  /** Those that run -> their notification; '': it is to come. */
  private readonly going = new Map<string, string>();
  private readonly news: News<Action>;
  private known: readonly Action[] = [];

  constructor(
    private readonly model: ISlurmModel,
    channel: Channel | null
  ) {
    this.news = new News(channel, ended => ended.forEach(action => this.end(action)));
    const hear = (): void => {
      if (model.actions !== this.known) {
        this.known = model.actions;
        this.look();
      }
    };
    model.changed.connect(hear);
    hear();
  }

  private look(): void {
    for (const action of this.known) {
      if (action.state === 'running') {
        this.show(action);
      } else {
        this.news.hear(action.id, action);
      }
    }
    const running = this.known.filter(({ state }) => state === 'running').map(({ id }) => id);
    for (const [id, notification] of this.going) {
      if (!running.includes(id)) {
        this.going.delete(id);
        if (notification !== '') {
          Notification.dismiss(notification);
        }
      }
    }
  }

  private show(action: Action): void {
    const id = this.going.get(action.id);
    if (id === undefined) {
      this.going.set(action.id, '');
      window.setTimeout(() => {
        const now = this.known.find(one => one.id === action.id);
        if (now !== undefined && this.going.has(action.id)) {
          this.going.set(action.id, this.emit(now));
        }
      }, UNSEEN_MS);
    } else if (id !== '') {
      Notification.update({ id, message: going(action), progress: share(action) });
    }
  }

  private emit(action: Action): string {
    const { model } = this;
    return Notification.emit(going(action), 'in-progress', {
      autoClose: false,
      progress: share(action),
      actions: [
        {
          label: trans.__('Stop'),
          caption: trans.__('What is done stays done'),
          callback: () => {
            model
              .call('stop_action', { action_id: action.id })
              .catch((error: unknown) => tell(error, trans.__('Stop')));
          }
        }
      ]
    });
  }

  private end(action: Action): void {
    const { model } = this;
    const isGood = action.state === 'done' && action.refused === 0;
    if (action.jobs > 1 || !isGood) {
      const type = isGood ? 'success' : action.state === 'stopped' ? 'warning' : 'error';
      announce(ended(action), type);
    }
    // Another page has told it and forgotten it, too: that is no failure.
    model.call('forget_action', { action_id: action.id }).catch(() => undefined);
  }
}

function share({ done, jobs }: Action): number {
  return jobs > 0 ? done / jobs : 0;
}

function going({ verb, done, jobs }: Action): string {
  const far = [numeral(done), numeral(jobs)];
  switch (verb) {
    case 'cancel':
      return trans.__('Cancelling: %1 of %2', ...far);
    case 'hold':
      return trans.__('Holding: %1 of %2', ...far);
    case 'release':
      return trans.__('Releasing: %1 of %2', ...far);
    case 'requeue':
      return trans.__('Requeuing: %1 of %2', ...far);
  }
}

/** How many, which not, and why. */
export function ended(action: Action): string {
  const count = done(action);
  const first = action.state === 'stopped' ? trans.__('Stopped: %1', count) : count;
  const left = action.jobs - action.done;
  return [
    first,
    action.refused > 0 ? refused(action) : '',
    left > 0
      ? trans._n('%2 job is as it was', '%2 jobs are as they were', left, numeral(left))
      : '',
    action.problem === null ? '' : action.problem.message
  ]
    .filter(part => part !== '')
    .map(part => part.replace(/[.。]$/, ''))
    .reduce((text, part) => trans.__('%1. %2', text, part));
}

function done({ verb, done, refused }: Action): string {
  const count = done - refused;
  const told = numeral(count);
  switch (verb) {
    case 'cancel':
      return trans._n('%2 job cancelled', '%2 jobs cancelled', count, told);
    case 'hold':
      return trans._n('%2 job put on hold', '%2 jobs put on hold', count, told);
    case 'release':
      return trans._n('%2 job released', '%2 jobs released', count, told);
    case 'requeue':
      return trans._n('%2 job requeued', '%2 jobs requeued', count, told);
  }
}

/** Most are refused for the same reason: the first one's stands for them. */
function refused({ refused: count, refusals }: Action): string {
  const why = refusals[0]?.why ?? '';
  const named = refusals.slice(0, NAMED).map(({ job }) => job);
  const ids = `${named.join(', ')}${count > named.length ? ' …' : ''}`;
  const told = [numeral(count), ids, visible(why)];
  return trans._n('%2 was not: %3. %4', '%2 were not: %3. %4', count, ...told);
}
