// The sidebar as a widget, with its watches. view.tsx draws it.
import type { CommandRegistry } from '@lumino/commands';
import type { JSX } from 'react';
import { slurmIcon } from '../icons';
import { later } from '../later';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { ModelWidget } from '../watching';
import { Looks } from './looks';

const SidebarView = later(async () => (await import('./view')).SidebarView);

export class SlurmSidebar extends ModelWidget {
  private readonly looks = new Looks();

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

  /** Focus the jobs when a command or the status bar shows the sidebar. */
  protected override onActivateRequest(): void {
    const row = this.node.querySelector<HTMLElement>('[role=row][tabindex="0"]');
    (row ?? this.node).focus();
  }

  protected override view(): JSX.Element {
    return (
      <SidebarView
        model={this.model}
        commands={this.commands}
        looks={this.looks}
        refresh={() => {
          this.looks.rest();
          this.hear();
        }}
      />
    );
  }

  protected override rest(): void {
    super.rest();
    this.looks.rest();
  }

  protected override hear(): void {
    this.looks.look(this.model);
    super.hear();
  }
}
