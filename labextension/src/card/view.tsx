// A job's card under its cell: state, name, facts, notes and actions. facts.ts defines its texts.
import type { LabIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import { useEffect, useMemo, useReducer, useState, type JSX } from 'react';
import { useClock } from '../clock';
import { tell } from '../commands/telling';
import { exactly } from '../exactly';
import { isFinal, isHeld, stateWord, tone, visible } from '../format';
import { useStopped } from '../grid/freshness';
import { cancelIcon, kindIcon, logIcon, openIcon } from '../icons';
import { stateIcon } from '../job/icons';
import { TaskGrid } from '../job/tasks';
import { DashboardButtons } from '../labs/dashboards';
import { Marked } from '../marked';
import { used } from '../sidebar/words';
import { runOf, type Place } from '../submit/place';
import { CommandIDs, type Freshness, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Connection, Job } from '../wire';
import { reasonsLeft } from './ended';
import { attaching, facts, notes, now, place, type Note } from './facts';
import { isMissing } from './missing';
import { remediesOf } from './remedies';
import { LogTail } from './tail';
import '../../style/card.css';

interface CardProps {
  job: Job;
  model: ISlurmModel;
  commands: CommandRegistry;
  /** The cell, if it may lack some of the job's output. */
  cell: Place | null;
}

/** The height of a grid of tasks before its cells reach their smallest size. */
const GRID_PX = 120;

export function JobCardView({ job, model, commands, cell }: CardProps): JSX.Element {
  const [log, setLog] = useState(false);
  const name = visible(job.name);
  const open = (): void => {
    void commands.execute(CommandIDs.openJob, { id: job.id });
  };
  const connection = model.connections.get(job.cluster);
  const openTask = (task: number): void => {
    const { cluster, id, slurm_id } = job;
    const targets = [{ cluster, id, slurm_id: slurm_id && `${slurm_id}_${task}` }];
    void commands.execute(CommandIDs.openJob, { targets });
  };
  const hasTasks = Object.keys(job.tasks).length > 0;
  const remedies = remediesOf(job, connection, commands);
  const incomplete = useMissing(job, cell) ? cell : null;
  const attach = incomplete === null ? attaching(job) : null;
  const known = facts(job).map(fact => fact.join(' '));
  const { submitted_s, started_s, ended_s } = job;
  // Formatting of dates is slow, and a sweep changes often.
  const when = useMemo(
    () => moments({ submitted_s, started_s, ended_s }),
    [submitted_s, started_s, ended_s]
  );
  const Kind = kindIcon(job);
  return (
    <section
      className="jp-slurm jp-slurm-Card"
      data-tone={tone(job.state)}
      aria-label={trans.__('Job %1', name)}
    >
      <div className="jp-slurm-CardHead">
        <div className="jp-slurm-CardTitle">
          <State job={job} />
          <span className="jp-slurm-CardName" title={name}>
            <Kind.react tag="span" className="jp-slurm-Icon" />
            <bdi>{name}</bdi>
          </span>
          <Now {...{ job, freshness: model.freshness, connection }} />
        </div>
        <span className="jp-slurm-CardActions">
          {remedies.map(({ label, title, act }) => (
            <button key={label} className="jp-slurm-Button" title={title} onClick={act}>
              {label}
            </button>
          ))}
          {incomplete === null ? null : <ShowAll jobId={job.id} cell={incomplete} />}
          <DashboardButtons job={job} commands={commands} />
          <IconButton
            icon={logIcon}
            label={log ? trans.__('Hide log') : trans.__('Log')}
            title={trans.__('Last lines of the output')}
            expanded={log}
            click={() => setLog(!log)}
          />
          <IconButton
            icon={openIcon}
            label={trans.__('Open')}
            title={trans.__('Log, resources, script and details in a tab')}
            click={open}
          />
          {isFinal(job.state) ? null : (
            <IconButton
              icon={cancelIcon}
              label={trans.__('Cancel')}
              title={trans.__('Cancel this job')}
              click={() => {
                void commands.execute(CommandIDs.cancel, { id: job.id });
              }}
            />
          )}
        </span>
      </div>
      {hasTasks ? null : <TimeBar {...{ job, freshness: model.freshness, connection }} />}
      <p className="jp-slurm-Facts" title={`${known.join(' · ')}\n${when}`}>
        <span title={job.id}>{place(job)}</span>
        {['', ...known].join(' · ')}
      </p>
      {hasTasks ? (
        <TaskGrid {...{ job, model }} chosen={null} choose={openTask} heightPx={GRID_PX} />
      ) : null}
      <Notes
        {...{ job, freshness: model.freshness, connection }}
        reasons={reasonsLeft(job, remedies.length > 0)}
      />
      {attach === null ? null : <NoteLine note={attach} />}
      {log ? <LogTail model={model} jobId={job.id} open={open} /> : null}
    </section>
  );
}

/** The sign and the name of a state. */
function State({ job }: Pick<CardProps, 'job'>): JSX.Element {
  const Sign = stateIcon(isHeld(job.state, job.reason) ? 'HELD' : job.state);
  return (
    <>
      {Sign === undefined ? null : <Sign.react tag="span" className="jp-slurm-Icon" />}
      <span className="jp-slurm-State" data-tone={tone(job.state)} title={job.state} role="status">
        {stateWord(job.state)}
      </span>
    </>
  );
}

/** Return whether output is missing. Check again when the run of the cell ends. */
function useMissing(job: Job, cell: Place | null): boolean {
  const [, look] = useReducer((looks: number) => looks + 1, 0);
  const run = runOf(cell);
  useEffect(() => void run?.done.then(look, look), [run]);
  return cell !== null && isMissing(job, cell);
}

function ShowAll({ jobId, cell }: { jobId: string; cell: Place }): JSX.Element {
  const label = trans.__('Show all output');
  const show = async (): Promise<void> => {
    try {
      const { showAll } = await import('./showing');
      await showAll(cell, jobId);
    } catch (error) {
      tell(error, label);
    }
  };
  return (
    <button
      className="jp-slurm-Button"
      title={trans.__('Fetch the missing output and the variables')}
      onClick={() => void show()}
    >
      {label}
    </button>
  );
}

function Now({ job, freshness, connection }: ClockProps): JSX.Element {
  const text = now(job, useJobClock(job, freshness, connection)).join(' · ');
  return (
    <span className="jp-slurm-CardNow" title={[text, job.why ?? ''].join('\n').trim()}>
      {text}
    </span>
  );
}

interface ButtonProps {
  icon: LabIcon;
  label: string;
  title: string;
  expanded?: boolean;
  click: () => void;
}

function IconButton({ icon, label, title, expanded, click }: ButtonProps): JSX.Element {
  return (
    <button
      className="jp-slurm-IconButton"
      title={title}
      aria-label={label}
      aria-expanded={expanded}
      onClick={click}
    >
      <icon.react tag="span" className="jp-slurm-Icon" />
    </button>
  );
}

interface ClockProps {
  job: Job;
  freshness: Freshness;
  connection: Connection | undefined;
}

interface NotesProps extends ClockProps {
  /** The reason and the advice to show; undefined for the job's own. */
  reasons?: readonly (string | null)[];
}

export function Notes({ job, freshness, connection, reasons }: NotesProps): JSX.Element {
  const nowS = useJobClock(job, freshness, connection);
  return (
    <>
      {notes(job, freshness, connection, nowS, reasons).map(one => (
        <NoteLine key={one.text} note={one} />
      ))}
    </>
  );
}

/** Progress of a running job: by tasks for an array, by the time limit for other jobs. */
export function TimeBar({ job, freshness, connection }: ClockProps): JSX.Element | null {
  const nowS = useJobClock(job, freshness, connection);
  const part = used(job, nowS);
  return part === null ? null : (
    <div className="jp-slurm-Bar" aria-hidden="true">
      <div style={{ width: `${part * 100}%` }} />
    </div>
  );
}

/**
 * Return the time up to which durations are measured. It stops when the job ends or when the agent
 * reports no more news.
 */
export function useJobClock(
  job: Job,
  freshness: Freshness,
  connection: Connection | undefined
): number {
  const since = job.started_s ?? job.submitted_s ?? job.created_s;
  const isOver = isFinal(job.state);
  const isUnknown = [freshness, job, connection].some(one => (one?.problem ?? null) !== null);
  const nowS = useClock(isOver || isUnknown ? null : since);
  const stoppedS = useStopped(isUnknown && !isOver, nowS);
  return isOver ? nowS : Math.min(stoppedS, job.problem_since_s ?? stoppedS);
}

export function NoteLine({ note: { tone, text } }: { note: Note }): JSX.Element {
  return (
    <p className="jp-slurm-CardNote" data-tone={tone}>
      <span aria-hidden="true">{SIGNS[tone]}</span>
      <Marked text={text} />
    </p>
  );
}

const SIGNS: Record<Note['tone'], string> = { bad: '✖ ', look: '⚠ ', plain: '' };

/** The exact times of the job. */
export function moments(job: Pick<Job, 'submitted_s' | 'started_s' | 'ended_s'>): string {
  return [
    job.submitted_s === null ? '' : trans.__('Submitted: %1', exactly(job.submitted_s)),
    job.started_s === null ? '' : trans.__('Started: %1', exactly(job.started_s)),
    job.ended_s === null ? '' : trans.__('Ended: %1', exactly(job.ended_s))
  ]
    .filter(line => line !== '')
    .join('\n');
}
