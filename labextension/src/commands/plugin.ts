// The plugin that adds the commands of jobs and clusters, which every view uses.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISlurmModel } from '../tokens';
import { addClusterCommands } from './clusters';
import { addJobCommands } from './jobs';

const NEWS = 'jupyter-slurm-actions';

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:commands',
  description: 'What a person does to jobs and clusters.',
  autoStart: true,
  requires: [ISlurmModel],
  activate: (app: JupyterFrontEnd, model: ISlurmModel) => {
    addJobCommands(app, model);
    addClusterCommands(app, model);
    const begin = (): void => {
      if (model.actions.length > 0) {
        model.changed.disconnect(begin);
        void tellOfActions(model);
      }
    };
    model.changed.connect(begin);
  }
};

async function tellOfActions(model: ISlurmModel): Promise<void> {
  const { ActionNews } = await import('./actions');
  new ActionNews(model, 'BroadcastChannel' in window ? new BroadcastChannel(NEWS) : null);
}
