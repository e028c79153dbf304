// The list of remote kernels: the name, cluster and options of each, and a button that removes it.
// The list is read again when JupyterLab's list of kernels changes.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { useCallback, useEffect, useState, type JSX } from 'react';
import { visible } from '../format';
import { kernelIcon } from '../icons';
import { dotted } from '../language';
import { told } from '../messages';
import { problemOf } from '../model/model';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { ModelWidget } from '../watching';
import { NoCluster } from '../welcome/view';
import type { Problem, RemoteKernel } from '../wire';
import { optionsOf } from './words';
import '../../style/kernels.css';

export class KernelsPanel extends ModelWidget {
  private news = 0;

  constructor(
    private readonly app: JupyterFrontEnd,
    model: ISlurmModel
  ) {
    super(model);
    this.id = 'jupyter-slurm-kernels';
    this.title.label = trans.__('Remote kernels');
    this.title.icon = kernelIcon;
    this.title.closable = true;
    this.addClass('jp-slurm');
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

interface Props {
  app: JupyterFrontEnd;
  model: ISlurmModel;
  /** A value that changes when the list may have changed. */
  news: number;
}

/** The server's answer. */
interface Kernels {
  kernels: RemoteKernel[];
}

function KernelsView({ app, model, news }: Props): JSX.Element {
  const { commands, serviceManager } = app;
  const [kernels, setKernels] = useState<readonly RemoteKernel[] | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const ask = useCallback(
    async (call: string, args = {}) => {
      try {
        const found = await model.call<Kernels>(call, args);
        setProblem(null);
        setKernels(found.kernels);
      } catch (error) {
        setProblem(problemOf(error));
      }
    },
    [model]
  );
  const remove = async (kernel: RemoteKernel): Promise<void> => {
    if (await mayRemove(kernel)) {
      await ask('kernel_remove', { name: kernel.name });
      // Update the launcher and the kernel picker.
      await serviceManager.kernelspecs.refreshSpecs();
    }
  };
  useEffect(() => {
    void ask('kernels');
  }, [ask, news]);
  return (
    <div className="jp-slurm-Kernels">
      <p className="jp-slurm-Quiet">
        {trans.__(
          'Kernels that run in jobs. They appear in the launcher and in every kernel picker.'
        )}
      </p>
      {problem === null ? null : (
        <p className="jp-slurm-Problem" role="alert">
          {told(problem)}
        </p>
      )}
      {kernels === null || kernels.length > 0 || model.hasNoCluster ? null : (
        <p className="jp-slurm-Empty">{trans.__('No remote kernels yet.')}</p>
      )}
      {kernels === null || kernels.length === 0 ? null : (
        <List kernels={kernels} remove={kernel => void remove(kernel)} />
      )}
      {model.hasNoCluster ? (
        <NoCluster model={model} commands={commands} />
      ) : (
        <button
          type="button"
          className="jp-slurm-Button"
          onClick={() => void commands.execute(CommandIDs.newKernel)}
        >
          {trans.__('New remote kernel…')}
        </button>
      )}
    </div>
  );
}

async function mayRemove(kernel: RemoteKernel): Promise<boolean> {
  const { button } = await showDialog({
    title: trans.__('Remove this kernel?'),
    body: trans.__(
      'Removes %1 from the launcher. Running kernels continue.',
      visible(kernel.display_name)
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Keep') }),
      Dialog.warnButton({ label: trans.__('Remove') })
    ]
  });
  return button.accept;
}

interface ListProps {
  kernels: readonly RemoteKernel[];
  remove: (kernel: RemoteKernel) => void;
}

function List({ kernels, remove }: ListProps): JSX.Element {
  return (
    <ul className="jp-slurm-KernelsList" aria-label={trans.__('Remote kernels')}>
      {kernels.map(one => (
        <li key={one.name}>
          <div>
            <bdi>{visible(one.display_name)}</bdi>
            <div className="jp-slurm-Quiet">
              {dotted([one.name, one.cluster ?? ''].map(visible))}
            </div>
            <code dir="ltr">{optionsOf(one)}</code>
          </div>
          <button
            type="button"
            className="jp-slurm-Button"
            aria-label={trans.__('%1: %2', trans.__('Remove…'), visible(one.display_name))}
            onClick={() => remove(one)}
          >
            {trans.__('Remove…')}
          </button>
        </li>
      ))}
    </ul>
  );
}
