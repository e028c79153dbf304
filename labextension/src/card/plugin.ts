// The plugin that shows the job, or the cluster that needs a login, which a cell's output names; how
// is told in the files beside it.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISlurmModel } from '../tokens';
import { LOGIN_MIME, LoginNotice } from './login';
import { JobCard, MIME } from './renderer';

/** Before text/html (50): the bundle's own HTML is for those who have no renderer. */
const RANK = 0;

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:card',
  description: 'The live card of a job, under its cell.',
  autoStart: true,
  requires: [ISlurmModel, IRenderMimeRegistry],
  optional: [INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    model: ISlurmModel,
    rendermime: IRenderMimeRegistry,
    notebooks: INotebookTracker | null
  ) => {
    // They show nothing that the notebook says but as text.
    const safe = true;
    rendermime.addFactory(
      {
        safe,
        mimeTypes: [MIME],
        createRenderer: () => new JobCard(model, app.commands, notebooks)
      },
      RANK
    );
    rendermime.addFactory(
      {
        safe,
        mimeTypes: [LOGIN_MIME],
        createRenderer: () => new LoginNotice(model, app.commands)
      },
      RANK
    );
  }
};
