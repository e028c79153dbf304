// The plugin that provides the model.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ITranslator } from '@jupyterlab/translation';
import { ISlurmModel } from '../tokens';
import { speak } from '../translation';
import { SlurmModel } from './model';

export const plugin: JupyterFrontEndPlugin<ISlurmModel> = {
  id: 'jupyter-slurm:model',
  description: 'The model of clusters and jobs in this browser tab.',
  autoStart: true,
  provides: ISlurmModel,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null) => {
    speak(translator);
    return new SlurmModel(app.serviceManager.serverSettings, async (...who) => {
      const { login } = await import('./login');
      return login(...who);
    });
  }
};
