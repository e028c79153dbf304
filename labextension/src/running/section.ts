// The section of these jobs in JupyterLab's *Running* panel.
import type { IRunningSessions } from '@jupyterlab/running';
import type { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { steer } from '../commands/steering';
import { tell } from '../commands/telling';
import { isRunning, stateWord, visible } from '../format';
import { kindIcon } from '../icons';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job } from '../wire';
import { isLasting } from './lasting';

export class LastingJobs implements IRunningSessions.IManager {
  readonly name = trans.__('Slurm');
  readonly shutdownLabel = trans.__('End');
  readonly shutdownAllLabel = trans.__('End All');
  readonly shutdownAllConfirmationText = trans.__(
    'Variables of sessions and kernels and unsaved work in labs will be lost.'
  );
  readonly runningChanged = new Signal<this, void>(this);
  private jobs: readonly Job[] = [];

  constructor(
    private readonly model: ISlurmModel,
    private readonly commands: CommandRegistry
  ) {
    model.changed.connect(this.look, this);
    this.look();
  }

  running(): IRunningSessions.IRunningItem[] {
    return this.jobs.map(job => this.item(job));
  }

  refreshRunning(): void {
    this.look();
  }

  /** JupyterLab has already asked for confirmation. */
  shutdownAll(): void {
    const targets = this.jobs.map(({ id, cluster }) => ({ id, cluster, slurm_id: null }));
    steer(this.model, targets, 'cancel').catch((error: unknown) =>
      tell(error, this.shutdownAllLabel)
    );
  }

  private look(): void {
    const jobs = [...this.model.jobs.values()].filter(isLasting);
    if (jobs.length !== this.jobs.length || jobs.some((job, at) => job !== this.jobs[at])) {
      this.jobs = jobs;
      this.runningChanged.emit();
    }
  }

  private item(job: Job): IRunningSessions.IRunningItem {
    const { id, kind, name, cluster, state, nodes } = job;
    const run = (command: string) => () => void this.commands.execute(command, { id });
    return {
      open: run(kind === 'lab' && isRunning(state) ? CommandIDs.openLab : CommandIDs.openJob),
      shutdown: run(CommandIDs.cancel),
      icon: () => kindIcon(job),
      label: () => visible(name),
      labelTitle: () => trans.__('%1 on %2', visible(name), cluster),
      detail: () => (isRunning(state) && nodes.length > 0 ? nodes.join(', ') : stateWord(state))
    };
  }
}
