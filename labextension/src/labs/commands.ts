// The commands of labs: opened in a tab, its address copied. Stopping one is cancelling its job.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Clipboard } from '@jupyterlab/apputils';
import { launchIcon, linkIcon, type LabIcon } from '@jupyterlab/ui-components';
import { wantedBy } from '../commands/current';
import { targetsSchema } from '../commands/targets';
import { warn } from '../commands/telling';
import { isFinal } from '../format';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job, Lab } from '../wire';
import { newTab, roomUrl } from './room';
import { isLab } from './words';

/** The address that leads there from this browser. */
function linkOf(lab: Lab): string {
  return lab.base_url === '/' ? lab.url : new URL(lab.base_url, location.origin).href;
}

export function addLabCommands(app: JupyterFrontEnd, model: ISlurmModel): void {
  const add = (
    id: string,
    label: string,
    caption: string,
    icon: LabIcon,
    act: (job: Job) => void
  ): void => {
    const lab = (args: Parameters<typeof wantedBy>[1]): Job | null => {
      const ours = wantedBy(app, args).map(one => model.jobs.get(one.id ?? ''));
      return ours.find(job => isLab(job) && !isFinal(job.state)) ?? null;
    };
    app.commands.addCommand(id, {
      label,
      caption,
      icon,
      describedBy: { args: targetsSchema },
      isEnabled: args => lab(args) !== null,
      isVisible: args => lab(args) !== null,
      execute: args => {
        const job = lab(args);
        if (job !== null) {
          act(job);
        }
      }
    });
  };
  add(
    CommandIDs.openLab,
    trans.__('Open the lab'),
    trans.__('In a tab of the browser, as soon as it is ready'),
    launchIcon,
    job => {
      if (!newTab().enter(roomUrl(job.id))) {
        warn(trans.__('This browser lets no tab be opened. Its own settings say why.'));
      }
    }
  );
  add(
    CommandIDs.copyLabLink,
    trans.__('Copy its link'),
    trans.__('The address of the lab'),
    linkIcon,
    job => Clipboard.copyToSystem(isLab(job) && job.lab !== null ? linkOf(job.lab) : '')
  );
}
