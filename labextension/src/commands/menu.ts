// The context menu of jobs.
import { MenuSvg } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import { CommandIDs } from '../tokens';
import { argsOf, type Target } from './targets';

/** `steering` lists the commands for waiting and running jobs, except Cancel. */
export function openMenu(
  commands: CommandRegistry,
  targets: readonly Target[],
  steering: readonly string[],
  at: { x: number; y: number }
): void {
  const menu = new MenuSvg({ commands });
  const args = argsOf(targets);
  const groups = [
    [CommandIDs.openLab, CommandIDs.copyLabLink],
    [
      CommandIDs.openJob,
      CommandIDs.openTerminal,
      CommandIDs.goToCell,
      CommandIDs.resubmit,
      CommandIDs.openFolder,
      CommandIDs.copyId
    ],
    steering,
    [CommandIDs.cancel, CommandIDs.forget]
  ];
  const usable = groups.filter(group =>
    group.some(id => commands.hasCommand(id) && commands.isVisible(id, args))
  );
  for (const [index, group] of usable.entries()) {
    if (index > 0) {
      menu.addItem({ type: 'separator' });
    }
    for (const command of group.filter(id => commands.hasCommand(id))) {
      menu.addItem({ command, args });
    }
  }
  const had = document.activeElement;
  menu.aboutToClose.connect(() => {
    // Wait, since the chosen command has not run yet.
    window.setTimeout(() => {
      menu.dispose();
      if (document.activeElement === document.body && had instanceof HTMLElement) {
        had.focus({ preventScroll: true });
      }
    }, 0);
  });
  menu.open(at.x, at.y);
}
