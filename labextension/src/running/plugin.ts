// The plugin that adds labs, sessions and kernels to JupyterLab's *Running* panel. Batch jobs end
// on their own, and are only in the sidebar.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { onceThereIs } from '../later';
import { ISlurmModel } from '../tokens';
import { isLasting } from './lasting';

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:running',
  description: 'Labs, sessions and kernels in the Running panel.',
  autoStart: true,
  requires: [ISlurmModel],
  optional: [IRunningSessionManagers],
  activate: (
    app: JupyterFrontEnd,
    model: ISlurmModel,
    managers: IRunningSessionManagers | null
  ) => {
    if (managers !== null) {
      onceThereIs(model, isLasting, async () => {
        const { LastingJobs } = await import('./section');
        managers.add(new LastingJobs(model, app.commands));
      });
    }
  }
};
