// A panel about one cluster in the main area: opened by a command, one for each cluster, there again
// with the layout, looked at as it was last. Whether it is seen, and nothing of what it shows.
import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { Message } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import type { ComponentType, JSX } from 'react';
import { show } from '../commands/show';
import { usualCluster, usualOf } from '../commands/targets';
import { slurmIcon } from '../icons';
import { CommandIDs, ISlurmModel } from '../tokens';
import { WatchingWidget } from '../watching';
import { NoCluster } from '../welcome/none';

export interface PanelProps<Look> {
  cluster: string;
  model: ISlurmModel;
  commands: CommandRegistry;
  trans: TranslationBundle;
  look: Look;
  remember: (look: Look) => void;
  /** Whether anybody can see it: nothing is watched else. */
  seen: boolean;
}

interface Kind<Look> {
  /** In ids. */
  name: string;
  command: string;
  label: string;
  caption: string;
  title: (cluster: string) => string;
  className: string;
  View: ComponentType<PanelProps<Look>>;
  /** How it is looked at, as it was remembered; null: as at first. */
  lookOf: (remembered: unknown) => Look;
  saved: (look: Look) => ReadonlyPartialJSONObject;
}

export function panelPlugin<Look>(
  id: string,
  description: string,
  kindOf: (trans: TranslationBundle) => Kind<Look>
): JupyterFrontEndPlugin<void> {
  return {
    id,
    description,
    autoStart: true,
    requires: [ISlurmModel],
    optional: [ITranslator, ILayoutRestorer, IStateDB],
    activate: (
      app: JupyterFrontEnd,
      model: ISlurmModel,
      translator: ITranslator | null,
      restorer: ILayoutRestorer | null,
      state: IStateDB | null
    ) => {
      const trans = (translator ?? nullTranslator).load('jupyter_slurm');
      const kind = kindOf(trans);
      const tracker = addPanel(app, model, trans, kind, state);
      void restorer?.restore(tracker, {
        command: kind.command,
        args: widget => ({ cluster: widget.content.cluster }),
        name: widget => widget.content.cluster
      });
    }
  };
}

type Tracker<Look> = WidgetTracker<MainAreaWidget<ClusterPanel<Look>>>;

/** The command that opens it. */
function addPanel<Look>(
  app: JupyterFrontEnd,
  model: ISlurmModel,
  trans: TranslationBundle,
  kind: Kind<Look>,
  state: IStateDB | null
): Tracker<Look> {
  const { command, name, label, caption } = kind;
  const tracker: Tracker<Look> = new WidgetTracker({ namespace: `slurm-${name}` });
  const key = `jupyter-slurm:${name}-look`;
  let look = kind.lookOf(null);
  const remembered = state?.fetch(key).then(value => {
    look = kind.lookOf(value);
  });
  const remember = (next: Look): void => {
    look = next;
    void state?.save(key, kind.saved(next));
  };
  app.commands.addCommand(command, {
    label,
    caption,
    icon: slurmIcon,
    describedBy: {
      args: {
        type: 'object',
        properties: { cluster: { type: 'string', description: 'None: the default one.' } }
      }
    },
    execute: async args => {
      await remembered;
      const named = typeof args.cluster === 'string' ? args.cluster : '';
      const cluster = named === '' ? await usualCluster(model) : named;
      let panel = tracker.find(widget => widget.content.cluster === cluster);
      if (panel === undefined) {
        const props = { cluster, model, commands: app.commands, trans, look, remember };
        const made = new MainAreaWidget({ content: new ClusterPanel(kind, props) });
        made.content.named.connect(() => void tracker.save(made));
        await tracker.add(made);
        panel = made;
      }
      show(app, panel);
    }
  });
  return tracker;
}

export class ClusterPanel<Look> extends WatchingWidget {
  /** Opened while there was no cluster, it has one now. */
  readonly named = new Signal<this, void>(this);
  private watched: IDisposable | null = null;
  private isRemoved = false;

  constructor(
    private readonly kind: Kind<Look>,
    private readonly props: Omit<PanelProps<Look>, 'seen'>
  ) {
    super();
    this.id = `jupyter-slurm-${kind.name}-${this.cluster}`;
    this.title.label = this.cluster === '' ? kind.label : kind.title(this.cluster);
    this.title.icon = slurmIcon;
    this.title.closable = true;
    this.addClass('jp-slurm');
    this.addClass(kind.className);
  }

  /** '': there was none yet. */
  get cluster(): string {
    return this.props.cluster;
  }

  override dispose(): void {
    super.dispose();
    Signal.clearData(this);
  }

  protected override render(): JSX.Element {
    const { commands, trans, model } = this.props;
    const isNamed = this.cluster !== '';
    if (!isNamed || this.isRemoved) {
      const welcome = (): void => void commands.execute(CommandIDs.showSidebar);
      const removed = isNamed && !model.hasNoCluster ? { removed: this.cluster } : {};
      return <NoCluster {...removed} welcome={welcome} trans={trans} />;
    }
    const { View } = this.kind;
    return <View {...this.props} seen={this.isVisible} />;
  }

  private hear(): void {
    const { model } = this.props;
    if (this.cluster === '') {
      this.name(usualOf(model.clusters));
    } else if (model.isRemoved(this.cluster) !== this.isRemoved) {
      this.isRemoved = !this.isRemoved;
      this.update();
    }
  }

  private name(cluster: string): void {
    if (cluster !== '') {
      this.props.cluster = cluster;
      this.title.label = this.kind.title(cluster);
      this.update();
      this.named.emit();
    }
  }

  protected override look(): void {
    if (this.watched === null) {
      const { model } = this.props;
      this.watched = model.watchJobs();
      model.changed.connect(this.hear, this);
      this.hear();
    }
  }

  protected override rest(): void {
    this.props.model.changed.disconnect(this.hear, this);
    this.watched?.dispose();
    this.watched = null;
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.update();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.update();
  }
}
