// Says that a notebook is open in a lab too: each has a kernel of its own, and saves over what the
// other has saved. A lab says the same in its own page (node/lab_page.js).
import { isFinal, visible } from '../format';
import { listed } from '../language';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { isLab } from './words';

const LOOK_MS = 60_000;
/** The server notices a notebook a moment after it was opened. */
const SOON_MS = 3_000;

/** The server's answer: path -> who else has it open. */
interface Told {
  notebooks: Record<string, string[]>;
}

/** The notebook before the user's eyes. */
interface Current {
  path: () => string | null;
  changed: (act: () => void) => void;
}

export class Elsewhere {
  private readonly told = new Set<string>();

  constructor(
    private readonly model: ISlurmModel,
    private readonly current: Current,
    private readonly warn: (message: string) => void
  ) {
    const soon = (): void => void window.setTimeout(() => void this.look(), SOON_MS);
    current.changed(soon);
    soon();
    window.setInterval(() => void this.look(), LOOK_MS);
  }

  /** Nobody is asked where there is no lab, or nobody looks. */
  private async look(): Promise<void> {
    const path = this.current.path();
    const jobs = [...this.model.jobs.values()];
    if (path === null || document.hidden || !jobs.some(job => isLab(job) && !isFinal(job.state))) {
      return;
    }
    const { notebooks } = await this.model
      .call<Told>('elsewhere', {})
      .catch((): Told => ({ notebooks: {} }));
    const others = notebooks[path] ?? [];
    const key = [path, ...others].join('\n');
    if (others.length > 0 && !this.told.has(key)) {
      this.told.add(key);
      const where = listed(others.map(one => visible(one)));
      const name = visible(path.split('/').at(-1) ?? path); // JupyterLab cuts off what is long
      this.warn(
        trans.__(
          '%1 is also open in %2. Keep it open in one place only: each saves over the others.',
          name,
          where
        )
      );
    }
  }
}
