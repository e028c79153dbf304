// The menu of the button in a notebook's toolbar: this cell, this notebook.
import type { ToolbarButton } from '@jupyterlab/apputils';
import { MenuSvg } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import { CommandIDs } from '../tokens';

export function openMenu(button: ToolbarButton, commands: CommandRegistry): void {
  const menu = new MenuSvg({ commands });
  menu.addItem({ command: CommandIDs.submitCell });
  menu.addItem({ command: CommandIDs.submitNotebook });
  const { left, bottom } = button.node.getBoundingClientRect();
  // A closed menu sends its commands before it may be disposed of.
  menu.aboutToClose.connect(() => {
    button.pressed = false; // JupyterLab has set it with the click
    window.setTimeout(() => menu.dispose(), 0);
  });
  menu.open(left, bottom);
}
