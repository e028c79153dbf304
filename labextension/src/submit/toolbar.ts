// The button in a notebook's toolbar.
import { ToolbarButton } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { CommandRegistry } from '@lumino/commands';
import { slurmIcon } from '../icons';
import { trans } from '../translation';

export const TOOLBAR_ITEM = 'jupyter-slurm';

export function slurmButton(_: NotebookPanel, commands: CommandRegistry): ToolbarButton {
  const button = new ToolbarButton({
    icon: slurmIcon,
    'aria-haspopup': 'menu',
    tooltip: trans.__('Run this cell or this notebook on Slurm'),
    onClick: () => void import('./menu').then(({ openMenu }) => openMenu(button, commands))
  });
  return button;
}
