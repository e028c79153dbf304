// What was chosen last on each cluster, in JupyterLab's own state.
import type { IStateDB } from '@jupyterlab/statedb';
import { NO_WISHES, type Wishes } from './form';

/** Of jobs, of labs, and of kernels. */
export const JOBS = 'jupyter-slurm:wishes';
export const LABS = 'jupyter-slurm:wishes-labs';
export const KERNELS = 'jupyter-slurm:wishes-kernels';

const ONES_OWN = { name: '', 'display-name': '', array: '' } as const;

interface Saved {
  /** The cluster of the last job. */
  last: string;
  by: Record<string, Partial<Wishes>>;
}

export class Memory {
  private saved: Saved = { last: '', by: {} };

  constructor(
    private readonly state: IStateDB | null,
    private readonly key: string = JOBS
  ) {}

  get last(): string {
    return this.saved.last;
  }

  async read(): Promise<void> {
    const found = await this.state?.fetch(this.key);
    if (isSaved(found)) {
      this.saved = found;
    }
  }

  /** Names and an array are one job's own. */
  of(cluster: string): Wishes {
    const saved = Object.entries(this.saved.by[cluster] ?? {}).filter(
      ([key, value]) => key in NO_WISHES && typeof value === 'string'
    );
    return { ...NO_WISHES, ...Object.fromEntries(saved), cluster, ...ONES_OWN };
  }

  async keep(wishes: Wishes): Promise<void> {
    this.saved = {
      last: wishes.cluster,
      by: { ...this.saved.by, [wishes.cluster]: { ...wishes, ...ONES_OWN } }
    };
    await this.state?.save(this.key, { ...this.saved });
  }
}

function isSaved(value: unknown): value is Saved {
  const { last, by } = (value ?? {}) as Partial<Record<keyof Saved, unknown>>;
  return typeof last === 'string' && typeof by === 'object' && by !== null;
}
