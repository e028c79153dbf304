// The commands of labs: open in a tab, copy the link.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Clipboard } from '@jupyterlab/apputils';
import { launchIcon, linkIcon } from '@jupyterlab/ui-components';
import { addCommands } from '../commands/jobs';
import type { Target } from '../commands/targets';
import { warn } from '../commands/telling';
import { isFinal } from '../format';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { LabJob } from '../wire';
import { newTab, roomUrl } from './room';
import { isLab } from './words';

export function addLabCommands(app: JupyterFrontEnd, model: ISlurmModel): void {
  const labOf = (target: Target | undefined): LabJob | null => {
    const job = model.jobs.get(target?.id ?? '');
    return isLab(job) && !isFinal(job.state) ? job : null;
  };
  const ofLabs = {
    fits: () => true,
    // Menus of jobs other than labs hide the command.
    refused: (target: Target) => (labOf(target) === null ? '' : null)
  };
  addCommands(app, [
    {
      id: CommandIDs.openLab,
      label: trans.__('Open lab'),
      caption: trans.__('Open in a new tab when ready'),
      icon: launchIcon,
      ...ofLabs,
      execute: ([target]) => {
        if (!newTab().enter(roomUrl(labOf(target)?.id ?? ''))) {
          warn(trans.__('The browser blocked the new tab. Allow pop-ups for this page.'));
        }
        return Promise.resolve();
      }
    },
    {
      id: CommandIDs.copyLabLink,
      label: trans.__('Copy link'),
      caption: trans.__('Copy the URL of the lab'),
      icon: linkIcon,
      ...ofLabs,
      execute: ([target]) => {
        const { base_url: base = '/', url = '' } = labOf(target)?.lab ?? {};
        Clipboard.copyToSystem(base === '/' ? url : new URL(base, location.origin).href);
        return Promise.resolve();
      }
    }
  ]);
}
