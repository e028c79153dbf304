// The sidebar as a widget: what it watches while it is seen. What it shows is view.tsx's.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type { JSX } from 'react';
import { isOpen } from '../format';
import { slurmIcon } from '../icons';
import type { Freshness, ISlurmModel, QueueView } from '../tokens';
import { WatchingWidget } from '../watching';
import type { QueueEntry } from '../wire';
import type { Queues } from './queues';
import { SidebarView } from './view';

export class SlurmSidebar extends WatchingWidget {
  readonly changed = new Signal<this, void>(this);
  private readonly queues = new WatchedQueues(() => {
    this.changed.emit();
  });
  private watched: IDisposable | null = null;

  constructor(
    readonly model: ISlurmModel,
    readonly commands: CommandRegistry,
    readonly trans: TranslationBundle
  ) {
    super();
    this.id = 'jupyter-slurm-sidebar';
    this.title.icon = slurmIcon;
    this.title.caption = trans.__('Slurm');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Slurm'));
    this.addClass('jp-slurm');
    this.addClass('jp-slurm-Sidebar');
  }

  override dispose(): void {
    super.dispose();
    Signal.clearData(this);
  }

  protected override render(): JSX.Element {
    return (
      <SidebarView
        model={this.model}
        commands={this.commands}
        trans={this.trans}
        queues={this.queues}
        changed={this.changed}
        isSeen={this.isSeen}
        refresh={() => {
          this.queues.rest();
          this.adapt();
        }}
      />
    );
  }

  private readonly isSeen = (): boolean => this.watched !== null && !document.hidden;

  protected override look(): void {
    if (this.watched === null) {
      this.watched = this.model.watchJobs();
      this.model.changed.connect(this.adapt, this);
      this.adapt();
    }
  }

  protected override rest(): void {
    this.model.changed.disconnect(this.adapt, this);
    this.watched?.dispose();
    this.watched = null;
    this.queues.rest();
  }

  private adapt(): void {
    this.queues.look(this.model);
    this.changed.emit();
  }
}

/** The queue of every cluster that can be asked, and of no other. */
class WatchedQueues implements Queues {
  clusters: readonly string[] = [];
  private readonly views = new Map<string, QueueView>();
  /** As it was when it was last looked at: shown until there are news. */
  private readonly before = new Map<string, Pick<QueueView, 'entries' | 'ended'>>();

  constructor(private readonly changed: () => void) {}

  entries(cluster: string): ReadonlyMap<string, QueueEntry> {
    return this.newest(cluster)?.entries ?? new Map<string, QueueEntry>();
  }

  ended(cluster: string): ReadonlyMap<string, QueueEntry> {
    return this.newest(cluster)?.ended ?? new Map<string, QueueEntry>();
  }

  private newest(cluster: string): Pick<QueueView, 'entries' | 'ended'> | undefined {
    const view = this.views.get(cluster);
    return view === undefined || view.freshness.asOf === null ? this.before.get(cluster) : view;
  }

  freshness(cluster: string): Freshness | null {
    return this.views.get(cluster)?.freshness ?? null;
  }

  look(model: ISlurmModel): void {
    const reached = [...model.connections.values()].filter(isOpen).map(one => one.cluster);
    for (const cluster of [...this.views.keys()].filter(one => !reached.includes(one))) {
      this.leave(cluster);
    }
    for (const cluster of reached.filter(one => !this.views.has(one))) {
      const view = model.queue(cluster, false);
      view.changed.connect(this.changed);
      this.views.set(cluster, view);
    }
    if (reached.join('\n') !== this.clusters.join('\n')) {
      this.clusters = reached;
    }
  }

  rest(): void {
    for (const cluster of [...this.views.keys()]) {
      this.leave(cluster);
    }
  }

  private leave(cluster: string): void {
    const entries = new Map(this.entries(cluster));
    this.before.set(cluster, { entries, ended: new Map(this.ended(cluster)) });
    this.views.get(cluster)?.dispose();
    this.views.delete(cluster);
  }
}
