// The head of a job's panel: state, name, labelled facts, notes, and buttons for its commands.
import type { CommandRegistry } from '@lumino/commands';
import type { JSX } from 'react';
import { facts, place, times } from '../card/facts';
import { isHeldByUser } from '../card/remedies';
import { moments, Notes, TimeBar, useJobClock } from '../card/view';
import { isFinal, isHeld, visible } from '../format';
import { kindIcon } from '../icons';
import { DashboardButtons } from '../labs/dashboards';
import { CommandButton, StateWord } from '../parts';
import { canRetry } from '../tasks';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job } from '../wire';

interface Props {
  job: Job;
  model: ISlurmModel;
  commands: CommandRegistry;
}

export function Head({ job, model, commands }: Props): JSX.Element {
  const { freshness } = model;
  const connection = model.connections.get(job.cluster);
  const nowS = useJobClock(job, freshness, connection);
  const Kind = kindIcon(job);
  return (
    <div className="jp-slurm-JobHead">
      <div className="jp-slurm-JobTitle">
        <StateWord state={job.state} held={isHeld(job.state, job.reason)} />
        <Kind.react tag="span" className="jp-slurm-Icon" />
        <h2>
          <bdi>{visible(job.name)}</bdi>
        </h2>
        <span className="jp-slurm-Quiet" title={job.id}>
          {place(job)}
        </span>
        <Actions job={job} commands={commands} />
      </div>
      <TimeBar {...{ job, freshness, connection }} />
      <dl className="jp-slurm-JobFacts" title={moments(job)}>
        {[...times(job, nowS), ...facts(job)].map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <Notes
        {...{ job, freshness, connection }}
        // Omit the advice if a button above does what the advice says.
        reasons={[job.why, isHeldByUser(job) || canRetry(job) ? null : job.advice]}
      />
    </div>
  );
}

function Actions({ job, commands }: Omit<Props, 'model'>): JSX.Element {
  const held = (job.reason ?? '').includes('Held');
  const waits = job.state === 'PENDING' || job.state === 'REQUEUE_HOLD';
  const over = isFinal(job.state);
  const isArray = Object.keys(job.tasks).length > 0;
  const buttons: [id: string, shown: boolean][] = [
    [CommandIDs.goToCell, job.notebook !== null],
    [CommandIDs.openTerminal, job.state === 'RUNNING' && !isArray],
    [CommandIDs.retry, canRetry(job)],
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
        // Menus also hide commands that Slurm would refuse.
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
