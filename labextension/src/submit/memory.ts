// The last options of each cluster, and the saved presets, in JupyterLab's state database.
import type { IStateDB } from '@jupyterlab/statedb';
import { keepable, wishesIn, type Wishes } from './form';

/** Keys for jobs, labs and kernels. */
export const JOBS = 'jupyter-slurm:wishes';
export const LABS = 'jupyter-slurm:wishes-labs';
export const KERNELS = 'jupyter-slurm:wishes-kernels';

/** Fields that apply to one job only. */
export const ONES_OWN = { name: '', 'display-name': '', array: '', env: '' } as const;

interface Saved {
  /** The cluster of the last job. */
  last: string;
  by: Record<string, Partial<Wishes>>;
  favourites?: Record<string, Partial<Wishes>>;
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

  /** The presets, sorted by name. */
  get favourites(): readonly (readonly [name: string, wishes: Wishes])[] {
    return Object.entries(this.saved.favourites ?? {})
      .map(([name, wishes]) => [name, wishesIn(wishes)] as const)
      .sort(([one], [other]) => one.localeCompare(other));
  }

  async read(): Promise<void> {
    const found = await this.state?.fetch(this.key);
    if (isSaved(found)) {
      this.saved = found;
    }
  }

  of(cluster: string): Wishes {
    return { ...wishesIn(this.saved.by[cluster]), cluster, ...ONES_OWN };
  }

  async keep(wishes: Wishes): Promise<void> {
    await this.change(({ by, ...saved }) => ({
      ...saved,
      last: wishes.cluster,
      by: { ...by, [wishes.cluster]: { ...keepable(wishes), ...ONES_OWN } }
    }));
  }

  /** Save a preset. It replaces a preset of the same name. */
  async save(name: string, wishes: Wishes): Promise<void> {
    await this.change(saved => ({
      ...saved,
      favourites: { ...saved.favourites, [name]: keepable(wishes) }
    }));
  }

  async remove(name: string): Promise<void> {
    await this.change(({ favourites = {}, ...saved }) => ({
      ...saved,
      favourites: Object.fromEntries(Object.entries(favourites).filter(([one]) => one !== name))
    }));
  }

  private async change(next: (saved: Saved) => Saved): Promise<void> {
    await this.read(); // another form may have saved a preset
    this.saved = next(this.saved);
    await this.state?.save(this.key, { ...this.saved });
  }
}

function isSaved(value: unknown): value is Saved {
  const { last, by, favourites = {} } = (value ?? {}) as Partial<Record<keyof Saved, unknown>>;
  return typeof last === 'string' && isObject(by) && isObject(favourites);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
