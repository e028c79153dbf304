// The plugin of remote kernels: their list, and warnings before a kernel ends. submit/plugin.ts
// defines the form that adds a kernel.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget } from '@jupyterlab/apputils';
import { show } from '../commands/show';
import { addCommand } from '../commands/telling';
import { warnOfEnds } from '../ending';
import { kernelIcon } from '../icons';
import { CommandIDs, ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { endingSoon, isKernel } from './words';

const CHANNEL = 'jupyter-slurm:kernels';

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:kernels',
  description: 'Remote kernels: kernels that run in jobs.',
  autoStart: true,
  requires: [ISlurmModel],
  optional: [ICommandPalette],
  activate: (app: JupyterFrontEnd, model: ISlurmModel, palette: ICommandPalette | null) => {
    let panel: MainAreaWidget | null = null;
    addCommand(app.commands, CommandIDs.openKernels, {
      label: trans.__('Remote kernels…'),
      caption: trans.__('List and remove kernels that run in jobs'),
      icon: kernelIcon,
      execute: async () => {
        const { KernelsPanel } = await import('./view');
        if (panel === null || panel.isDisposed) {
          panel = new MainAreaWidget({ content: new KernelsPanel(app, model) });
          panel.id = 'jupyter-slurm-kernels-panel';
        }
        show(app, panel);
        return panel;
      }
    });
    palette?.addItem({ command: CommandIDs.openKernels, category: trans.__('Slurm') });
    warnOfEnds(
      model,
      {
        is: isKernel,
        told: endingSoon,
        label: trans.__('Go to notebook'),
        act: job => void app.commands.execute(CommandIDs.goToCell, { id: job.id })
      },
      CHANNEL
    );
  }
};
