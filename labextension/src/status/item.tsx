// Slurm in the status bar: counts of running and waiting jobs, and required logins. A click opens
// the sidebar.
import { TextItem } from '@jupyterlab/statusbar';
import type { CommandRegistry } from '@lumino/commands';
import type { JSX } from 'react';
import { countRows, live } from '../counts';
import { isFinal, isOpen, visible } from '../format';
import { listed, numeral } from '../language';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { ModelWidget } from '../watching';

export class StatusItem extends ModelWidget {
  constructor(
    model: ISlurmModel,
    private readonly commands: CommandRegistry
  ) {
    super(model);
    this.addClass('jp-mod-highlighted');
  }

  protected override view(): JSX.Element {
    const { text, told } = summary(this.model);
    return (
      <button
        className="jp-slurm-Status"
        title={told}
        aria-label={trans.__('Slurm: %1', told)}
        onClick={() => void this.commands.execute(CommandIDs.showSidebar)}
      >
        <TextItem source={text} />
      </button>
    );
  }
}

/** Signs for the bar, and words for screen readers. */
export function summary(model: ISlurmModel): { text: string; told: string } {
  const { problem } = model.freshness;
  const jobs = [...model.jobs.values()].filter(job => !isFinal(job.state));
  const { queues } = model;
  const seen = model.rows.filter(row => row.kind !== 'listed' || queues.has(row.cluster));
  const { running, waiting } = live(countRows(seen));
  const none = running + waiting === 0;
  const needed = [...model.connections.values()]
    .filter(({ state }) => state === 'lost' || state === 'login-needed' || state === 'asking')
    .filter(({ cluster }) => jobs.some(job => job.cluster === cluster))
    .map(({ cluster }) => trans.__('%1 needs a login', visible(cluster)));
  const doubts = problem === null ? needed : [problem.message];
  const told = [
    running > 0 ? trans._n('%1 job runs', '%1 jobs run', running) : '',
    waiting > 0 ? trans._n('%1 job waits', '%1 jobs wait', waiting) : '',
    !none
      ? ''
      : model.hasNoCluster
        ? trans.__('no cluster yet')
        : trans.__('no jobs running or waiting')
  ];
  const counted = listed(told);
  const open = [...model.connections.values()].filter(isOpen);
  const all = open.every(({ cluster }) => queues.get(cluster)?.asOf != null);
  const signs = none ? '' : ` ${numeral(running)} ▶ ${numeral(waiting)} ◷`;
  return {
    text: `Slurm${signs}${doubts.length > 0 ? ' ⚠' : ''}`,
    told: listed([all ? counted : trans.__('Submitted from this machine: %1', counted), ...doubts])
  };
}
