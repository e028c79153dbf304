// The button in a notebook's toolbar, and its menu.
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
    'aria-haspopup': 'menu',
    tooltip: trans.__('Run this cell or this notebook on Slurm'),
    onClick: () => openMenu(button, commands)
  });
  return button;
}

function openMenu(button: ToolbarButton, commands: CommandRegistry): void {
  const menu = new MenuSvg({ commands });
  menu.addItem({ command: CommandIDs.submitCell });
  menu.addItem({ command: CommandIDs.submitNotebook });
  const { left, bottom } = button.node.getBoundingClientRect();
  // The menu sends its command while it closes. Dispose of the menu afterwards.
  menu.aboutToClose.connect(() => {
    button.pressed = false; // JupyterLab set this at the click
    window.setTimeout(() => menu.dispose(), 0);
  });
  menu.open(left, bottom);
}
