// The widget of a panel about one cluster: its title, and its feeds while it is visible.
import type { LabIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { useState, type ComponentType, type JSX } from 'react';
import { usualOf } from '../commands/targets';
import type { ISlurmModel } from '../tokens';
import { ModelWidget } from '../watching';
import { NoCluster } from '../welcome/view';

export interface PanelProps<Look> {
  cluster: string;
  model: ISlurmModel;
  commands: CommandRegistry;
  look: Look;
  remember: (look: Look) => void;
}

/** The saved view settings, and a function that changes them. */
export function useLook<Look>(props: PanelProps<Look>): [Look, (next: Partial<Look>) => void] {
  const [look, setLook] = useState(props.look);
  const change = (next: Partial<Look>): void => {
    const whole = { ...look, ...next };
    setLook(whole);
    props.remember(whole);
  };
  return [look, change];
}

/** The names of a kind of panel. */
export interface Called {
  /** A part of the panel's ID. */
  name: string;
  label: string;
  icon: LabIcon;
  title: (cluster: string) => string;
  className: string;
}

export class ClusterPanel<Look> extends ModelWidget {
  /** Emitted when a panel that opened without a cluster gets its first cluster. */
  readonly named = new Signal<this, void>(this);
  private isRemoved = false;

  constructor(
    private readonly kind: Called,
    private readonly View: ComponentType<PanelProps<Look>>,
    private readonly props: PanelProps<Look>
  ) {
    super(props.model);
    this.id = `jupyter-slurm-${kind.name}-${this.cluster}`;
    this.title.label = this.cluster === '' ? kind.label : kind.title(this.cluster);
    this.title.icon = kind.icon;
    this.title.closable = true;
    this.addClass('jp-slurm');
    this.addClass(kind.className);
  }

  /** The cluster; '' before the first choice. */
  get cluster(): string {
    return this.props.cluster;
  }

  override dispose(): void {
    super.dispose();
    Signal.clearData(this);
  }

  protected override view(): JSX.Element {
    const { commands, model } = this.props;
    const isNamed = this.cluster !== '';
    if (!isNamed || this.isRemoved) {
      const removed = isNamed && !model.hasNoCluster ? { removed: this.cluster } : {};
      return <NoCluster {...removed} model={model} commands={commands} />;
    }
    const { View } = this;
    return <View {...this.props} />;
  }

  protected override hear(): void {
    const { model } = this;
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
}
