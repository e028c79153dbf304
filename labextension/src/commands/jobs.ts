// The commands of jobs, for every view and menu: their labels, conditions and calls.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Clipboard } from '@jupyterlab/apputils';
import { copyIcon, folderIcon, notebookIcon, type LabIcon } from '@jupyterlab/ui-components';
import { isFinal, isRunning, isWaiting } from '../format';
import { isKernel } from '../kernels/words';
import { isHeadless } from '../submit/executed';
import { cancelIcon, extendIcon, forgetIcon, holdIcon, releaseIcon, requeueIcon } from '../icons';
import { numeral } from '../language';
import { canRetry } from '../tasks';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job } from '../wire';
import { wantedBy } from './current';
import { each, outcome, steer, type JobVerb } from './steering';
import { isOurs, jobOf, stateOf, targetsSchema, type Target } from './targets';
import { announce, tell } from './telling';

/** States of a job that no longer runs, but has no final result yet. */
const ENDING: ReadonlySet<string> = new Set(['FINISHING', 'COMPLETING', 'STAGE_OUT']);

/** A command of jobs. */
export interface Command {
  id: string;
  label: string;
  /** Return another label for this job. */
  labelOf?: (target: Target | undefined) => string | null;
  caption: string;
  icon: LabIcon;
  /** Return whether the command is enabled for this job. */
  fits: (target: Target) => boolean;
  /**
   * Return the reason why Slurm would refuse the command, if it is known. Menus then hide the
   * command.
   */
  refused?: (target: Target) => string | null;
  /** True if the command acts on each selected job and counts them in its label. */
  counts?: boolean;
  /** Return the result of the command. */
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
  /** Allow the command if the state is unknown, since Slurm then decides. */
  const when = (fits: (state: string) => boolean) => (target: Target) => {
    const state = stateOf(model, target);
    return state === null || fits(state);
  };
  /** Slurm does not manage cells of sessions and jobs on the login node. */
  const knownToSlurm = (fits: (state: string) => boolean) => (target: Target) =>
    (target.id === null || model.jobs.get(target.id)?.slurm_id !== null) && when(fits)(target);
  const does = (verb: JobVerb) => async (targets: Target[]) => {
    const { countOf } = await import('./asking');
    const count = countOf(model, targets);
    const refusals = await steer(model, targets, verb);
    if (count > 1 || refusals.length > 0) {
      announce(outcome(verb, count, refusals), refusals.length > 0 ? 'error' : 'success');
    }
  };
  const all: Command[] = [
    {
      id: CommandIDs.cancel,
      label: trans.__('Cancel'),
      caption: trans.__('Cancel this job'),
      icon: cancelIcon,
      fits: when(state => !isFinal(state)),
      execute: async targets => {
        const { mayCancel } = await import('./asking');
        if (await mayCancel(model, targets)) {
          await does('cancel')(targets);
        }
      }
    },
    {
      id: CommandIDs.hold,
      label: trans.__('Hold'),
      caption: trans.__('Prevent the job from starting'),
      icon: holdIcon,
      fits: knownToSlurm(isWaiting),
      execute: does('hold')
    },
    {
      id: CommandIDs.release,
      label: trans.__('Release'),
      caption: trans.__('Let the job start'),
      icon: releaseIcon,
      fits: knownToSlurm(isWaiting),
      execute: does('release')
    },
    {
      id: CommandIDs.requeue,
      label: trans.__('Requeue'),
      caption: trans.__('Stop the job and queue it again'),
      icon: requeueIcon,
      fits: knownToSlurm(state => isRunning(state) && !ENDING.has(state)),
      refused: target => {
        const job = target.id === null ? undefined : model.jobs.get(target.id);
        return job?.no_requeue ?? null;
      },
      execute: async targets => {
        const { mayRequeue } = await import('./asking');
        if (await mayRequeue(model, targets)) {
          await does('requeue')(targets);
        }
      }
    },
    {
      id: CommandIDs.retry,
      label: trans.__('Retry'),
      caption: trans.__('Submit the failed tasks again'),
      icon: requeueIcon,
      fits: target => isOurs(target) && canRetry(model.jobs.get(target.id)),
      execute: async targets => {
        await each(targets.filter(isOurs), async ({ id }) => {
          const job = await jobOf(model, id);
          await model.callLoggedIn(job.cluster, 'retry', { job_id: job.id });
        });
      }
    },
    {
      id: CommandIDs.extend,
      label: trans.__('More time…'),
      caption: trans.__('Change the time limit, if Slurm allows it'),
      icon: extendIcon,
      fits: target => isOurs(target) && knownToSlurm(isRunning)(target),
      execute: async targets => {
        const { wantedLimit } = await import('./asking');
        const limit = await wantedLimit();
        if (limit !== null) {
          await each(targets.filter(isOurs), async ({ id }) => {
            const job = await jobOf(model, id);
            await model.callLoggedIn(job.cluster, 'extend', { job_id: job.id, limit });
          });
        }
      }
    },
    {
      id: CommandIDs.forget,
      label: trans.__('Remove…'),
      caption: trans.__("Remove the job's record and directory"),
      icon: forgetIcon,
      fits: target => isOurs(target) && when(isFinal)(target),
      execute: async targets => {
        const { mayForget } = await import('./asking');
        if (await mayForget(model, targets)) {
          await each(targets.filter(isOurs), async ({ id }) => {
            const job = await jobOf(model, id);
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
    (act: (job: Job) => Promise<void>) =>
    async ([target]: Target[]) => {
      if (target !== undefined && isOurs(target)) {
        await act(await jobOf(model, target.id));
      }
    };
  return [
    {
      id: CommandIDs.copyId,
      label: trans.__('Copy job ID'),
      caption: trans.__('Copy the Slurm ID, or else the jupyter-slurm ID'),
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
      label: trans.__('Open folder'),
      caption: trans.__('Show the working directory in a file browser'),
      icon: folderIcon,
      fits: isOurs,
      execute: first(async job => {
        const { openFolder } = await import('./places');
        await openFolder(app, model, job);
      })
    },
    {
      id: CommandIDs.goToCell,
      label: trans.__('Go to cell'),
      labelOf: target => (isFromCell(target && known(target)) ? null : trans.__('Go to notebook')),
      caption: trans.__("Open this job's notebook at the cell"),
      icon: notebookIcon,
      fits: target => isOurs(target) && known(target)?.notebook !== null,
      execute: first(async job => {
        const { goToCell } = await import('./places');
        await goToCell(app, model, job);
      })
    }
  ];
}

function isFromCell(job: Job | null | undefined): boolean {
  return !job || (!isKernel(job) && !isHeadless(job));
}
