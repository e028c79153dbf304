// Where a panel of ours is put. Nothing here knows what is in it.
import { LabShell, type JupyterFrontEnd } from '@jupyterlab/application';
import type { Widget } from '@lumino/widgets';

/** Notebook 7 has one document in its main area and takes no other: there it goes to the right. */
export function show({ shell }: Pick<JupyterFrontEnd, 'shell'>, panel: Widget): void {
  if (!panel.isAttached) {
    shell.add(panel, shell instanceof LabShell ? 'main' : 'right');
  }
  shell.activateById(panel.id);
}
