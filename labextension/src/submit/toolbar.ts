// The button in a notebook's toolbar, and its menu: this cell, this notebook.
import { ToolbarButton } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { MenuSvg } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import { slurmIcon } from '../icons';
import { CommandIDs } from '../tokens';
import { trans } from '../translation';

export const TOOLBAR_ITEM = 'jupyter-slurm';

export function slurmButton(_: NotebookPanel, commands: CommandRegistry): ToolbarButton {
  const button = new ToolbarButton({
    icon: slurmIcon,
    tooltip: trans.__('Run this cell or this notebook on Slurm'),
    onClick: () => {
      const menu = new MenuSvg({ commands });
      menu.addItem({ command: CommandIDs.submitCell });
      menu.addItem({ command: CommandIDs.submitNotebook });
      const { left, bottom } = button.node.getBoundingClientRect();
      // A menu that has closed tells its commands before it may go.
      menu.aboutToClose.connect(() => {
        window.setTimeout(() => menu.dispose(), 0);
      });
      menu.open(left, bottom);
    }
  });
  return button;
}
