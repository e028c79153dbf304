// The list of remote kernels as a widget of the main area, read anew when JupyterLab's own list of
// kernels changes.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { JSX } from 'react';
import { slurmIcon } from '../icons';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { ModelWidget } from '../watching';
import { KernelsView } from './view';

export class KernelsPanel extends ModelWidget {
  private news = 0;

  constructor(
    private readonly app: JupyterFrontEnd,
    model: ISlurmModel
  ) {
    super(model);
    this.id = 'jupyter-slurm-kernels';
    this.title.label = trans.__('Remote kernels');
    this.title.icon = slurmIcon;
    this.title.closable = true;
    this.addClass('jp-slurm');
    this.addClass('jp-slurm-KernelsPanel');
    app.serviceManager.kernelspecs.specsChanged.connect(this.listAnew, this);
  }

  override dispose(): void {
    this.app.serviceManager.kernelspecs.specsChanged.disconnect(this.listAnew, this);
    super.dispose();
  }

  protected override view(): JSX.Element {
    return <KernelsView app={this.app} model={this.model} news={this.news} />;
  }

  private listAnew(): void {
    this.news += 1;
    this.update();
  }
}
