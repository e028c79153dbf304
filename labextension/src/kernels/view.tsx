// The list of remote kernels that can be picked: what each is called, where it runs, what it asks
// for; and what removes one. A function of what the server says.
import { useEffect, useState, type JSX } from 'react';
import { visible } from '../format';
import { problemOf } from '../model/model';
import { told } from '../messages';
import { trans } from '../translation';
import { NoCluster } from '../welcome/none';
import type { Problem, RemoteKernel } from '../wire';
import { optionsOf } from './words';
import '../../style/kernels.css';

export interface KernelsProps {
  list: () => Promise<RemoteKernel[]>;
  /** Asks first; null: nothing was removed. */
  remove: (kernel: RemoteKernel) => Promise<RemoteKernel[] | null>;
  make: () => void;
  /** Shows the way to a cluster; null: there is one. */
  welcome: (() => void) | null;
  /** Differs when there may be others than before. */
  news: number;
}

export function KernelsView(props: KernelsProps): JSX.Element {
  const { list, remove, make, welcome, news } = props;
  const [kernels, setKernels] = useState<readonly RemoteKernel[] | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const take = async (asked: Promise<readonly RemoteKernel[] | null>): Promise<void> => {
    try {
      const found = await asked;
      setProblem(null);
      setKernels(was => found ?? was);
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  useEffect(() => {
    void take(list());
  }, [list, news]);
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
      {kernels === null ? null : kernels.length === 0 ? (
        welcome !== null ? null : (
          <p className="jp-slurm-Empty">{trans.__('There are none yet.')}</p>
        )
      ) : (
        <List
          kernels={kernels}
          remove={kernel => {
            void take(remove(kernel));
          }}
        />
      )}
      {welcome === null ? (
        <button type="button" className="jp-slurm-Button" onClick={make}>
          {trans.__('New remote kernel…')}
        </button>
      ) : (
        <NoCluster welcome={welcome} />
      )}
    </div>
  );
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
              {[one.name, one.cluster ?? ''].filter(Boolean).map(visible).join(' · ')}
            </div>
            <code dir="ltr">{optionsOf(one)}</code>
          </div>
          <button
            type="button"
            className="jp-slurm-Button"
            aria-label={trans.__('%1: %2', trans.__('Remove…'), visible(one.display_name))}
            onClick={() => {
              remove(one);
            }}
          >
            {trans.__('Remove…')}
          </button>
        </li>
      ))}
    </ul>
  );
}
