// The plugin that adds the commands of jobs and clusters, which every view uses.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { ISlurmModel } from '../tokens';
import { ActionNews } from './actions';
import { addClusterCommands } from './clusters';
import { addJobCommands } from './jobs';

const NEWS = 'jupyter-slurm-actions';

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:commands',
  description: 'What a person does to jobs and clusters.',
  autoStart: true,
  requires: [ISlurmModel],
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, model: ISlurmModel, translator: ITranslator | null) => {
    const trans = (translator ?? nullTranslator).load('jupyter_slurm');
    addJobCommands(app, model, trans);
    addClusterCommands(app, model, trans);
    new ActionNews(model, trans, 'BroadcastChannel' in window ? new BroadcastChannel(NEWS) : null);
  }
};
