// The head of a job's panel: what it is, how it goes, and what can be done about it by commands.
import type { CommandRegistry } from '@lumino/commands';
import type { JSX } from 'react';
import { isHeldByUser } from '../card/remedies';
import { Facts } from '../card/view';
import { isFinal, isHeld, visible } from '../format';
import { DashboardButtons } from '../labs/dashboard_buttons';
import { dotted } from '../language';
import { CommandButton, StateWord } from '../parts';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job } from '../wire';

interface Props {
  job: Job;
  model: ISlurmModel;
  commands: CommandRegistry;
}

export function Head({ job, model, commands }: Props): JSX.Element {
  const held = isHeld(job.state, job.reason);
  const where = [
    trans.__('%1 on %2', job.slurm_id ?? job.id, visible(job.cluster)),
    // Of one that has no node yet it stands below in the node's place.
    job.partition === null || job.nodes.length === 0
      ? ''
      : trans.__('partition %1', visible(job.partition)),
    job.account === null ? '' : trans.__('account %1', visible(job.account)),
    job.restarts > 0 ? trans.__('attempt %1', job.restarts + 1) : ''
  ];
  return (
    <div className="jp-slurm-JobHead">
      <div className="jp-slurm-JobTitle">
        <StateWord state={job.state} held={held} />
        <h2>
          <bdi>{visible(job.name)}</bdi>
        </h2>
        <span className="jp-slurm-Quiet">{dotted(where)}</span>
        <Actions job={job} commands={commands} />
      </div>
      <Facts
        job={job}
        freshness={model.freshness}
        connection={model.connections.get(job.cluster)}
        reasons={[job.why, isHeldByUser(job) ? null : job.advice]} // the button above lets it go
      />
    </div>
  );
}

function Actions({ job, commands }: Omit<Props, 'model'>): JSX.Element {
  const held = (job.reason ?? '').includes('Held');
  const waits = job.state === 'PENDING' || job.state === 'REQUEUE_HOLD';
  const over = isFinal(job.state);
  const buttons: [id: string, shown: boolean][] = [
    [CommandIDs.goToCell, job.notebook !== null],
    [CommandIDs.openTerminal, job.state === 'RUNNING'],
    [CommandIDs.resubmit, over],
    [CommandIDs.copyId, job.slurm_id !== null],
    [CommandIDs.hold, waits && !held],
    [CommandIDs.release, waits && held],
    [CommandIDs.requeue, job.state === 'RUNNING'],
    [CommandIDs.cancel, !over],
    [CommandIDs.forget, over]
  ];
  return (
    <span className="jp-slurm-JobActions" role="group" aria-label={trans.__('Actions')}>
      <DashboardButtons job={job} commands={commands} />
      {buttons
        // What Slurm would refuse is in no menu, and here neither.
        .filter(
          ([id, shown]) =>
            shown && commands.hasCommand(id) && commands.isVisible(id, { id: job.id })
        )
        .map(([id]) => (
          <CommandButton key={id} commands={commands} id={id} args={{ id: job.id }} />
        ))}
    </span>
  );
}
