// The plugin that opens a terminal in a running job, in JupyterLab's own terminal widget.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITerminalTracker, Terminal, type ITerminal } from '@jupyterlab/terminal';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { terminalIcon } from '@jupyterlab/ui-components';
import { CURRENT } from '../commands/current';
import { addCommands } from '../commands/jobs';
import { show } from '../commands/show';
import { isTask, jobOf, stateOf, type Target } from '../commands/targets';
import { isRunning, visible } from '../format';
import { said } from '../messages';
import { terminalUrl } from '../server';
import { CommandIDs, ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job } from '../wire';
import type { End, JobTerminal } from './connection';

/** Where JupyterLab keeps how its terminals look. */
const LOOKS = '@jupyterlab/terminal-extension:plugin';

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:terminals',
  description: 'A terminal in a running job.',
  autoStart: true,
  requires: [ISlurmModel],
  optional: [ITranslator, ICommandPalette, ISettingRegistry, ITerminalTracker],
  activate: (
    app: JupyterFrontEnd,
    model: ISlurmModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    settings: ISettingRegistry | null,
    tracker: ITerminalTracker | null
  ) => {
    const { serverSettings } = app.serviceManager;

    const connectionTo = async (job: Job): Promise<JobTerminal> => {
      const { JobTerminal } = await import('./connection');
      const { endWords } = await import('./words');
      const connection = new JobTerminal(visible(job.name), serverSettings, {
        url: number => terminalUrl(serverSettings, job.id, number),
        said: text => visible(said(text)),
        ended: async end => {
          if (needsLogin(end) && (await model.connect(job.cluster).catch(() => false))) {
            await connection.reconnect();
            return [];
          }
          return endWords(end, job.id, model);
        }
      });
      return connection;
    };

    const open = async (job: Job): Promise<void> => {
      const looks = await looksOf(settings);
      const connection = await connectionTo(job);
      const watched = model.watchJobs();
      const content = new Terminal(connection, looks, translator ?? nullTranslator);
      const widget = new MainAreaWidget<ITerminal.ITerminal>({ content });
      widget.id = `jupyter-slurm-${content.id}`;
      widget.title.icon = terminalIcon;
      widget.title.caption = trans.__('A terminal in %1', visible(job.name));
      // Whatever the settings say of terminals that run on: no tab can be made for this one again.
      widget.disposed.connect(() => {
        connection.dispose();
        watched.dispose();
      });
      tracker?.inject(widget);
      show(app, widget);
    };

    addCommands(app, [
      {
        id: CommandIDs.openTerminal,
        label: trans.__('Open a terminal'),
        caption: trans.__('In the running job, on its node and in its image'),
        icon: terminalIcon,
        fits: target => mayRun(model, target),
        execute: async ([target]) => {
          if (target !== undefined) {
            await open(await jobOf(model, target));
          }
        }
      }
    ]);
    palette?.addItem({
      command: CommandIDs.openTerminal,
      category: trans.__('Slurm'),
      args: CURRENT
    });
  }
};

function mayRun(model: ISlurmModel, target: Target): boolean {
  const state = stateOf(model, target);
  return !isTask(target) && (state === null || isRunning(state));
}

function needsLogin(end: End): boolean {
  return end.how === 'problem' && end.problem.code === 'login-needed';
}

/** As the user has set them for all terminals. */
async function looksOf(
  settings: ISettingRegistry | null
): Promise<Partial<ITerminal.IOptions> | undefined> {
  try {
    return (await settings?.load(LOOKS))?.composite;
  } catch {
    return undefined; // this front end has no terminals of its own
  }
}
