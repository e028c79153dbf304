// What a cell shows whose remote kernel needs a login: that, and the button for it. The bundle in
// the notebook names a cluster and no more; what is shown of that comes from the model.
import type { IRenderMime } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { IDisposable } from '@lumino/disposable';
import type { JSX } from 'react';
import { isOpen, visible } from '../format';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { WatchingWidget } from '../watching';
import { Saved } from './view';

export const LOGIN_MIME = 'application/vnd.jupyter-slurm.login+json';

/** Which cluster a bundle names; null: it is none of ours, whatever it may hold. */
export function clusterNamed(bundle: unknown): string | null {
  if (typeof bundle !== 'object' || bundle === null) {
    return null;
  }
  const { v, cluster } = bundle as Record<string, unknown>;
  return v === 1 && typeof cluster === 'string' ? cluster : null;
}

export class LoginNotice extends WatchingWidget implements IRenderMime.IRenderer {
  private cluster: string | null = null;
  private saved = '';
  private watched: IDisposable | null = null;

  constructor(
    private readonly model: ISlurmModel,
    private readonly commands: CommandRegistry,
    private readonly trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-slurm-CardHost');
  }

  renderModel(bundle: IRenderMime.IMimeModel): Promise<void> {
    this.cluster = clusterNamed(bundle.data[LOGIN_MIME]);
    const plain = bundle.data['text/plain'];
    this.saved = typeof plain === 'string' ? plain : '';
    this.look();
    this.update();
    return this.renderPromise ?? Promise.resolve();
  }

  protected override render(): JSX.Element {
    const { model, trans, cluster } = this;
    const connection = cluster === null ? undefined : model.connections.get(cluster);
    if (cluster === null || connection === undefined) {
      const sentence = trans.__('What the notebook was saved with:');
      return <Saved sentence={sentence} saved={this.saved} />;
    }
    const name = visible(cluster);
    if (isOpen(connection)) {
      return (
        <Saved sentence={trans.__('%1 is connected; this goes on by itself.', name)} saved="" />
      );
    }
    return (
      <section className="jp-slurm jp-slurm-Card" data-tone="waiting">
        <p className="jp-slurm-CardNote" data-tone="look">
          <span aria-hidden="true">⚠ </span>
          <span>{trans.__('%1 needs a login. This goes on by itself after it.', name)}</span>
        </p>
        <button
          className="jp-slurm-Button"
          title={trans.__('Connect to %1', name)}
          onClick={() => {
            void this.commands.execute(CommandIDs.connect, { cluster });
          }}
        >
          {trans.__('Log in')}
        </button>
      </section>
    );
  }

  protected override look(): void {
    if (this.watched === null && this.isVisible && this.cluster !== null) {
      this.watched = this.model.watchJobs();
      this.model.changed.connect(this.hear, this);
    }
  }

  protected override rest(): void {
    this.model.changed.disconnect(this.hear, this);
    this.watched?.dispose();
    this.watched = null;
  }

  private hear(): void {
    this.update();
  }
}
