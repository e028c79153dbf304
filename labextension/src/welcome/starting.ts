// The private cluster of this machine on its way: how far its start is, and why it fails. The server
// starts it as `jupyter slurm up` does.
import { useState } from 'react';
import { problemOf } from '../model/model';
import type { ISlurmModel } from '../tokens';
import type { Problem } from '../wire';

/** What `POST up` answers. */
interface Start {
  said: string[];
  done: boolean;
}

export interface Starting {
  busy: boolean;
  /** What is being done. */
  step: string | null;
  problem: Problem | null;
}

const RESTING: Starting = { busy: false, step: null, problem: null };

/** How far the start is, and what begins it. It stays busy until the model has the cluster. */
export function useStart(model: ISlurmModel): [Starting, () => void] {
  const [starting, setStarting] = useState(RESTING);
  const begin = async (): Promise<void> => {
    setStarting({ ...RESTING, busy: true });
    try {
      await started(model, step => setStarting({ ...RESTING, busy: true, step }));
    } catch (error) {
      setStarting({ ...RESTING, problem: problemOf(error) });
    }
  };
  return [
    starting,
    () => {
      if (!starting.busy) {
        void begin();
      }
    }
  ];
}

async function started(model: ISlurmModel, tell: (step: string | null) => void): Promise<void> {
  for (;;) {
    const { said, done } = await model.call<Start>('up');
    tell(said.at(-1) ?? null);
    if (done) {
      // The agent, asked for its clusters, reads the new profile and tells every page of it.
      await model.call('clusters');
      return;
    }
  }
}
