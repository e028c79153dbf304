// The plugin that opens a job in the main area.
import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { IEditorServices } from '@jupyterlab/codeeditor';
import { URLExt } from '@jupyterlab/coreutils';
import { NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { ServerConnection } from '@jupyterlab/services';
import { wantedBy } from '../commands/current';
import { show } from '../commands/show';
import { targetsSchema } from '../commands/targets';
import { addCommand } from '../commands/telling';
import { jobIcon } from '../icons';
import { CommandIDs, ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { JobPanel } from './widget';

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:job',
  description: 'A panel for one job: log, resources, script, details.',
  autoStart: true,
  requires: [ISlurmModel, IRenderMimeRegistry, IEditorServices],
  optional: [ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    model: ISlurmModel,
    rendermime: IRenderMimeRegistry,
    editors: IEditorServices,
    restorer: ILayoutRestorer | null
  ) => {
    const tracker = new WidgetTracker<MainAreaWidget<JobPanel>>({ namespace: 'slurm-job' });
    const { commands, serviceManager, shell } = app;
    const { serverSettings } = serviceManager;
    const open = async (id: string, slurmId: string | null): Promise<void> => {
      const [{ JobPanel }, { passive }] = await Promise.all([
        import('./widget'),
        import('./passive')
      ]);
      let panel = tracker.find(widget => widget.content.jobId === id);
      if (panel === undefined) {
        const services = { model, commands, rendermime: passive(rendermime), editors };
        const content = new JobPanel(id, services, logfileUrl(serverSettings, id));
        panel = new MainAreaWidget({ content });
        panel.id = `${content.id}-area`;
        await tracker.add(panel);
      }
      panel.content.showTask(slurmId);
      show(app, panel);
    };
    addCommand(commands, CommandIDs.openJob, {
      label: trans.__('Open the job'),
      caption: trans.__('Log, resources, script and timeline'),
      icon: jobIcon,
      takes: targetsSchema,
      execute: async args => {
        for (const { id, slurm_id } of wantedBy(app, args)) {
          if (id !== null) {
            await open(id, slurm_id);
          }
        }
      },
      isEnabled: args => wantedBy(app, args).some(({ id }) => id !== null),
      isVisible: args => args.current !== true || shell.currentWidget instanceof NotebookPanel
    });
    void restorer?.restore(tracker, {
      command: CommandIDs.openJob,
      args: widget => ({ id: widget.content.jobId }),
      name: widget => widget.content.jobId
    });
  }
};

/** The URL of the whole output as a file. */
function logfileUrl(settings: ServerConnection.ISettings, id: string): string {
  const token = settings.appendToken && settings.token ? { token: settings.token } : {};
  const url = URLExt.join(settings.baseUrl, 'jupyter-slurm/api/logfile');
  return url + URLExt.objectToQueryString({ job_id: id, ...token });
}
