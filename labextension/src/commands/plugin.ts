// The plugin that adds the commands of jobs and clusters, which every view uses.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import { ISlurmModel } from '../tokens';
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
    const begin = (): void => {
      if (model.actions.length > 0) {
        model.changed.disconnect(begin);
        void tellOfActions(model, trans);
      }
    };
    model.changed.connect(begin);
  }
};

async function tellOfActions(model: ISlurmModel, trans: TranslationBundle): Promise<void> {
  const { ActionNews } = await import('./actions');
  new ActionNews(model, trans, 'BroadcastChannel' in window ? new BroadcastChannel(NEWS) : null);
}
