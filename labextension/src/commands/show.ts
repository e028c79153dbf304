// Opening of panels in the shell.
import { LabShell, type JupyterFrontEnd } from '@jupyterlab/application';
import type { Widget } from '@lumino/widgets';

/** Notebook 7 has a single document in its main area, so its panels are on the right. */
export function show({ shell }: Pick<JupyterFrontEnd, 'shell'>, panel: Widget): void {
  if (!panel.isAttached) {
    shell.add(panel, shell instanceof LabShell ? 'main' : 'right');
  }
  shell.activateById(panel.id);
}
