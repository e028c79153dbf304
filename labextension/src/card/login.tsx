// The request for a login below a cell of a remote kernel. The bundle in the notebook names a
// cluster, and the model has its state.
import type { IRenderMime } from '@jupyterlab/rendermime';
import type { CommandRegistry } from '@lumino/commands';
import type { JSX } from 'react';
import { isOpen, visible } from '../format';
import { later } from '../later';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { ModelWidget } from '../watching';

const Saved = later(async () => (await import('./saved')).Saved);
const NeedsLogin = later(async () => (await import('./saved')).NeedsLogin);

export const LOGIN_MIME = 'application/vnd.jupyter-slurm.login+json';

/** The cluster that a bundle names; null if it is not a bundle of ours. */
function clusterNamed(bundle: unknown): string | null {
  const { v, cluster } = Object(bundle) as Record<string, unknown>;
  return v === 1 && typeof cluster === 'string' ? cluster : null;
}

export class LoginNotice extends ModelWidget implements IRenderMime.IRenderer {
  private cluster: string | null = null;
  private saved = '';

  constructor(
    model: ISlurmModel,
    private readonly commands: CommandRegistry
  ) {
    super(model);
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

  protected override view(): JSX.Element {
    const { model, cluster } = this;
    const connection = cluster === null ? undefined : model.connections.get(cluster);
    if (cluster === null || connection === undefined) {
      const sentence = trans.__(
        'This cluster is unknown to this Jupyter server. This is the saved state.'
      );
      return <Saved sentence={sentence} saved={this.saved} />;
    }
    const name = visible(cluster);
    if (isOpen(connection)) {
      return (
        <Saved sentence={trans.__('%1 is connected. The cell continues now.', name)} saved="" />
      );
    }
    return (
      <NeedsLogin
        cluster={name}
        connect={() => {
          void this.commands.execute(CommandIDs.connect, { cluster });
        }}
      />
    );
  }

  protected override look(): void {
    if (this.isVisible && this.cluster !== null) {
      super.look();
    }
  }
}
