// The plugin that makes the model and gives it to the others.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { ISlurmModel } from '../tokens';
import { SlurmModel } from './model';

export const plugin: JupyterFrontEndPlugin<ISlurmModel> = {
  id: 'jupyter-slurm:model',
  description: 'The clusters and jobs that this browser tab knows.',
  autoStart: true,
  provides: ISlurmModel,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null) => {
    const trans = (translator ?? nullTranslator).load('jupyter_slurm');
    return new SlurmModel(app.serviceManager.serverSettings, async (...who) => {
      const { makeLogin } = await import('./login');
      return makeLogin(trans)(...who);
    });
  }
};
