// The plugin that shows the job which a cell's output names; how is told in the files beside it.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { ISlurmModel } from '../tokens';
import { JobCard, MIME } from './renderer';

/** Before text/html (50): the bundle's own HTML is for those who have no renderer. */
const RANK = 0;

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:card',
  description: 'The live card of a job, under its cell.',
  autoStart: true,
  requires: [ISlurmModel, IRenderMimeRegistry],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    model: ISlurmModel,
    rendermime: IRenderMimeRegistry,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('jupyter_slurm');
    rendermime.addFactory(
      {
        // It shows nothing that the notebook says but as text.
        safe: true,
        mimeTypes: [MIME],
        createRenderer: () => new JobCard(model, app.commands, trans)
      },
      RANK
    );
  }
};
