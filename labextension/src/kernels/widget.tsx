// The list of remote kernels as a widget of the main area, read anew when JupyterLab's own list of
// kernels changes.
import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { JSX } from 'react';
import { visible } from '../format';
import { slurmIcon } from '../icons';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { ModelWidget } from '../watching';
import type { RemoteKernel } from '../wire';
import { listedKernels, removeKernel } from './kernelspecs';
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
    return (
      <KernelsView
        list={this.list}
        remove={this.remove}
        make={this.make}
        welcome={this.model.hasNoCluster ? this.welcome : null}
        news={this.news}
      />
    );
  }

  private listAnew(): void {
    this.news += 1;
    this.update();
  }

  private readonly list = (): Promise<RemoteKernel[]> => listedKernels(this.model);

  private readonly remove = async (kernel: RemoteKernel): Promise<RemoteKernel[] | null> => {
    const { button } = await showDialog({
      title: trans.__('Remove this kernel?'),
      body: trans.__(
        '%1 can be picked no longer. Notebooks whose kernel it is now go on with it.',
        visible(kernel.display_name)
      ),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Keep') }),
        Dialog.warnButton({ label: trans.__('Remove') })
      ]
    });
    return button.accept ? removeKernel(this.app, this.model, kernel.name) : null;
  };

  private readonly welcome = (): void => {
    void this.app.commands.execute(CommandIDs.showSidebar);
  };

  private readonly make = (): void => {
    void this.app.commands.execute(CommandIDs.newKernel);
  };
}
