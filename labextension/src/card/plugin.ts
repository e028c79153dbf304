// The plugin that renders a job or a request for a login that a cell's output names.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISlurmModel } from '../tokens';
import { LOGIN_MIME, LoginNotice } from './login';
import { JobCard, MIME } from './renderer';

/** The rank. It precedes text/html (50), which is for front ends without this renderer. */
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
    // Show text from the notebook only as plain text.
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
