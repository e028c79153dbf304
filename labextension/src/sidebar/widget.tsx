// The sidebar as a widget: what it watches while it is seen. What it shows is view.tsx's.
import type { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import type { JSX } from 'react';
import { isOpen } from '../format';
import { slurmIcon } from '../icons';
import { later } from '../later';
import type { Freshness, ISlurmModel, QueueView } from '../tokens';
import { trans } from '../translation';
import { ModelWidget } from '../watching';
import type { QueueEntry } from '../wire';
import type { Queues } from './queues';

const SidebarView = later(async () => (await import('./view')).SidebarView);

export class SlurmSidebar extends ModelWidget {
  readonly changed = new Signal<this, void>(this);
  private readonly queues = new WatchedQueues(() => {
    this.changed.emit();
  });

  constructor(
    override readonly model: ISlurmModel,
    readonly commands: CommandRegistry
  ) {
    super(model);
    this.id = 'jupyter-slurm-sidebar';
    this.title.icon = slurmIcon;
    this.title.caption = trans.__('Slurm');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Slurm'));
    this.node.tabIndex = -1;
    this.addClass('jp-slurm');
    this.addClass('jp-slurm-Sidebar');
  }

  override dispose(): void {
    super.dispose();
    Signal.clearData(this);
  }

  /** A command or the status bar shows the sidebar: the next keys are for its jobs. */
  protected override onActivateRequest(): void {
    const row = this.node.querySelector<HTMLElement>('[role=row][tabindex="0"]');
    (row ?? this.node).focus();
  }

  protected override view(): JSX.Element {
    return (
      <SidebarView
        model={this.model}
        commands={this.commands}
        queues={this.queues}
        changed={this.changed}
        isSeen={this.isSeen}
        refresh={() => {
          this.queues.rest();
          this.hear();
        }}
      />
    );
  }

  private readonly isSeen = (): boolean => this.isVisible && !document.hidden;

  protected override rest(): void {
    super.rest();
    this.queues.rest();
  }

  /** Only the view's parts that show something else are drawn anew. */
  protected override hear(): void {
    this.queues.look(this.model);
    this.changed.emit();
  }
}

/** The queue of every cluster that can be asked, or could be: one that is lost says so itself. */
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
    const asked = (cluster: string): boolean => this.views.has(cluster) || this.before.has(cluster);
    const wanted = [...model.connections.values()]
      .filter(one => isOpen(one) || (one.state !== 'closed' && asked(one.cluster)))
      .map(one => one.cluster);
    for (const cluster of [...this.views.keys()].filter(one => !wanted.includes(one))) {
      this.leave(cluster);
    }
    for (const cluster of wanted.filter(one => !this.views.has(one))) {
      const view = model.queue(cluster, false);
      view.changed.connect(this.changed);
      this.views.set(cluster, view);
    }
    if (wanted.join('\n') !== this.clusters.join('\n')) {
      this.clusters = wanted;
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
