// The commands of jobs, as every view and every menu uses them: what each is called, when it can be
// used, and what it does by the files beside this one.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Clipboard } from '@jupyterlab/apputils';
import { copyIcon, folderIcon, notebookIcon, type LabIcon } from '@jupyterlab/ui-components';
import { isFinal, isRunning, isWaiting } from '../format';
import { isKernel } from '../kernels/words';
import { isHeadless } from '../submit/executed';
import { cancelIcon, extendIcon, forgetIcon, holdIcon, releaseIcon, requeueIcon } from '../icons';
import { numeral } from '../language';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job } from '../wire';
import { wantedBy } from './current';
import { each, steer, type Verb } from './steering';
import { isTask, jobOf, stateOf, targetsSchema, type Target } from './targets';
import { tell } from './telling';

/** It does not run any more, and its end is only not known yet. */
const ENDING: ReadonlySet<string> = new Set(['FINISHING', 'COMPLETING', 'STAGE_OUT']);

/** One of a job, wherever it is offered. */
export interface Command {
  id: string;
  label: string;
  /** What it is called for this one, where that is something else. */
  labelOf?: (target: Target | undefined) => string | null;
  caption: string;
  icon: LabIcon;
  /** Whether it can be used on this one. */
  fits: (target: Target) => boolean;
  /** Why Slurm would refuse it, as far as is known: it is in no menu then. */
  refused?: (target: Target) => string | null;
  /** True: the action is done to each selected job, and its label says how many there are. */
  counts?: boolean;
  /** What it gives is what the command gives. */
  execute: (targets: Target[]) => Promise<unknown>;
}

export function addJobCommands(app: JupyterFrontEnd, model: ISlurmModel): void {
  addCommands(app, [...steering(model), ...finding(app, model)]);
}

export function addCommands(app: JupyterFrontEnd, all: readonly Command[]): void {
  for (const { id, label, labelOf, caption, icon, execute, counts, ...rules } of all) {
    const refused = (target: Target): string | null => rules.refused?.(target) ?? null;
    const fits = (target: Target): boolean => rules.fits(target) && refused(target) === null;
    app.commands.addCommand(id, {
      label: args => {
        const wanted = wantedBy(app, args);
        const called = labelOf?.(wanted[0]) ?? label;
        const chosen = typeof args.chosen === 'number' ? args.chosen : wanted.length;
        if (counts === true && chosen > 1) {
          return `${called} (${numeral(wanted.filter(fits).length)})`;
        }
        return args.current === true ? trans.__('This job: %1', called) : called;
      },
      caption: args => wantedBy(app, args).map(refused).find(Boolean) ?? caption,
      icon,
      describedBy: { args: targetsSchema },
      isEnabled: args => wantedBy(app, args).some(fits),
      isVisible: args => {
        const wanted = wantedBy(app, args);
        const hides = args.current === true || wanted.some(one => refused(one) !== null);
        return !hides || wanted.some(fits);
      },
      execute: async args => {
        const targets = wantedBy(app, args).filter(fits);
        try {
          return targets.length > 0 ? await execute(targets) : undefined;
        } catch (error) {
          tell(error, label);
          return undefined;
        }
      }
    });
  }
}

function steering(model: ISlurmModel): Command[] {
  /** Where nothing is known of its state, Slurm says whether it can be done. */
  const when = (fits: (state: string) => boolean) => (target: Target) => {
    const state = stateOf(model, target);
    return state === null || fits(state);
  };
  /** Of a cell in a session, or of what the login machine runs, Slurm knows nothing. */
  const knownToSlurm = (fits: (state: string) => boolean) => (target: Target) =>
    (target.id === null || model.jobs.get(target.id)?.slurm_id !== null) && when(fits)(target);
  const does = (verb: Verb) => (targets: Target[]) => steer(model, targets, verb);
  const all: Command[] = [
    {
      id: CommandIDs.cancel,
      label: trans.__('Cancel'),
      caption: trans.__('Ask the job to end'),
      icon: cancelIcon,
      fits: when(state => !isFinal(state)),
      execute: async targets => {
        const { mayCancel } = await import('./asking');
        if (await mayCancel(model, targets)) {
          await steer(model, targets, 'cancel');
        }
      }
    },
    {
      id: CommandIDs.hold,
      label: trans.__('Hold'),
      caption: trans.__('Keep it from starting'),
      icon: holdIcon,
      fits: knownToSlurm(isWaiting),
      execute: does('hold')
    },
    {
      id: CommandIDs.release,
      label: trans.__('Release'),
      caption: trans.__('Let it start again'),
      icon: releaseIcon,
      fits: knownToSlurm(isWaiting),
      execute: does('release')
    },
    {
      id: CommandIDs.requeue,
      label: trans.__('Requeue'),
      caption: trans.__('Put it into the queue again, from its beginning'),
      icon: requeueIcon,
      fits: knownToSlurm(state => isRunning(state) && !ENDING.has(state)),
      refused: target => {
        const job = target.id === null ? undefined : model.jobs.get(target.id);
        return job?.no_requeue ?? null;
      },
      execute: async targets => {
        const { mayRequeue } = await import('./asking');
        if (await mayRequeue(model, targets)) {
          await steer(model, targets, 'requeue');
        }
      }
    },
    {
      id: CommandIDs.extend,
      label: trans.__('More time…'),
      caption: trans.__('Change the time limit of the job, where Slurm allows that'),
      icon: extendIcon,
      fits: target => !isTask(target) && knownToSlurm(isRunning)(target),
      execute: async targets => {
        const { wantedLimit } = await import('./asking');
        const limit = await wantedLimit();
        if (limit !== null) {
          await each(targets, async target => {
            const job = await jobOf(model, target);
            await model.callLoggedIn(job.cluster, 'extend', { job_id: job.id, limit });
          });
        }
      }
    },
    {
      id: CommandIDs.forget,
      label: trans.__('Forget…'),
      caption: trans.__('Remove its record here and its folder on the cluster'),
      icon: forgetIcon,
      fits: target => isOurs(target) && when(isFinal)(target),
      execute: async targets => {
        const { mayForget } = await import('./asking');
        if (await mayForget(model, targets)) {
          await each(targets, async target => {
            const job = await jobOf(model, target);
            await model.callLoggedIn(job.cluster, 'forget', { job_id: job.id });
          });
        }
      }
    }
  ];
  return all.map(one => ({ ...one, counts: true }));
}

function finding(app: JupyterFrontEnd, model: ISlurmModel): Command[] {
  const known = (target: Target) => (isOurs(target) ? model.jobs.get(target.id) : undefined);
  const first =
    (act: (target: Target) => Promise<void>) =>
    async ([target]: Target[]) => {
      if (target !== undefined) {
        await act(target);
      }
    };
  return [
    {
      id: CommandIDs.copyId,
      label: trans.__('Copy the id'),
      caption: trans.__("Slurm's id, where it has one"),
      icon: copyIcon,
      counts: true,
      fits: () => true,
      execute: targets => {
        const ids = targets.map(one => known(one)?.slurm_id ?? one.slurm_id ?? one.id ?? '');
        Clipboard.copyToSystem(ids.join(' '));
        return Promise.resolve();
      }
    },
    {
      id: CommandIDs.openFolder,
      label: trans.__('Open its folder'),
      caption: trans.__('In the file browser, or its path is copied'),
      icon: folderIcon,
      fits: isOurs,
      execute: first(async target => {
        const { openFolder } = await import('./places');
        await openFolder(app, model, await jobOf(model, target));
      })
    },
    {
      id: CommandIDs.goToCell,
      label: trans.__('Go to its cell'),
      labelOf: target =>
        isFromCell(target && known(target)) ? null : trans.__('Go to its notebook'),
      caption: trans.__('Open the notebook of this job, at its cell'),
      icon: notebookIcon,
      fits: target => isOurs(target) && known(target)?.notebook !== null,
      execute: first(async target => {
        const { goToCell } = await import('./places');
        await goToCell(app, model, await jobOf(model, target));
      })
    }
  ];
}

function isFromCell(job: Job | null | undefined): boolean {
  return !job || (!isKernel(job) && !isHeadless(job));
}

function isOurs(target: Target): target is Target & { id: string } {
  return target.id !== null && !isTask(target);
}
