// The list of remote kernels that can be picked: what each is called, where it runs, what it asks
// for; and what removes one. The server makes, lists and removes their kernelspecs.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { useCallback, useEffect, useState, type JSX } from 'react';
import { visible } from '../format';
import { dotted } from '../language';
import { told } from '../messages';
import { problemOf } from '../model/model';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { NoCluster } from '../welcome/none';
import type { Problem, RemoteKernel } from '../wire';
import { optionsOf } from './words';
import '../../style/kernels.css';

interface Props {
  app: JupyterFrontEnd;
  model: ISlurmModel;
  /** Differs when there may be others than before. */
  news: number;
}

/** What the server answers: those that there are. */
interface Kernels {
  kernels: RemoteKernel[];
}

export function KernelsView({ app, model, news }: Props): JSX.Element {
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
      // So that launcher and picker have it no longer.
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
          'Kernels that run in a job of their own. Each is in the launcher and in every picker of kernels.'
        )}
      </p>
      {problem === null ? null : (
        <p className="jp-slurm-Problem" role="alert">
          {told(problem)}
        </p>
      )}
      {kernels === null || kernels.length > 0 || model.hasNoCluster ? null : (
        <p className="jp-slurm-Empty">{trans.__('There are none yet.')}</p>
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
      '%1 can be picked no longer. Notebooks whose kernel it is now go on with it.',
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
