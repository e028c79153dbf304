// A job's card under its cell: what it does, where and for how long, what to do about it. What it
// says is facts.ts's; nothing of it comes from the notebook but what `Saved` shows as text.
import type { LabIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import { useEffect, useReducer, useState, type JSX } from 'react';
import { useClock } from '../clock';
import { tell } from '../commands/telling';
import { exactly } from '../exactly';
import { isFinal, isHeld, stateWord, tone, visible } from '../format';
import { useStopped } from '../grid/freshness';
import { cancelIcon, logIcon, openIcon } from '../icons';
import { stateIcon } from '../job/icons';
import { DashboardButtons } from '../labs/dashboard_buttons';
import { Marked } from '../marked';
import { used } from '../sidebar/words';
import { runOf, type Place } from '../submit/place';
import { CommandIDs, type Freshness, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Connection, Job } from '../wire';
import { reasonsLeft } from './ended';
import { attaching, facts, notes, now, place, time, waiting, type Note } from './facts';
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

export function JobCardView({ job, model, commands, cell }: CardProps): JSX.Element {
  const [log, setLog] = useState(false);
  const name = visible(job.name);
  const open = (): void => {
    void commands.execute(CommandIDs.openJob, { id: job.id });
  };
  const connection = model.connections.get(job.cluster);
  const remedies = remediesOf(job, connection, commands);
  const incomplete = useMissing(job, cell) ? cell : null;
  const attach = incomplete === null ? attaching(job) : null;
  const known = [...waiting(job), ...facts(job)];
  return (
    <section
      className="jp-slurm jp-slurm-Card"
      data-tone={tone(job.state)}
      aria-label={trans.__('Job %1', `${name}, ${place(job)}`)}
    >
      <div className="jp-slurm-CardHead">
        <div className="jp-slurm-CardTitle">
          <State job={job} />
          <bdi className="jp-slurm-CardName" title={name}>
            {name}
          </bdi>
          <Now job={job} freshness={model.freshness} />
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
            title={trans.__('The last lines of its output')}
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
              title={trans.__('Ask the job to end')}
              click={() => {
                void commands.execute(CommandIDs.cancel, { id: job.id });
              }}
            />
          )}
        </span>
      </div>
      <TimeBar job={job} freshness={model.freshness} />
      <p className="jp-slurm-Facts" title={`${known.join(' · ')}\n${moments(job)}`}>
        <span title={job.id}>{place(job)}</span>
        {['', ...known].join(' · ')}
      </p>
      <Notes
        {...{ job, freshness: model.freshness, connection }}
        reasons={reasonsLeft(job, remedies.length > 0)}
      />
      {attach === null ? null : <NoteLine note={attach} />}
      {log ? <LogTail model={model} jobId={job.id} open={open} /> : null}
    </section>
  );
}

/** The state's sign and word. */
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

/** Whether output is missing; looked for again when the cell's run is over. */
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
      title={trans.__('Bring the output that is missing here, and the variables')}
      onClick={() => void show()}
    >
      {label}
    </button>
  );
}

function Now({ job, freshness }: Pick<NotesProps, 'job' | 'freshness'>): JSX.Element {
  const text = now(job, useJobClock(job, freshness)).join(' · ');
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

interface NotesProps {
  job: Job;
  freshness: Freshness;
  connection?: Connection | undefined;
  /** What is said of why it waits or how it ended; else all that is known. */
  reasons?: readonly (string | null)[];
}

/** For how long it runs, where, and what a person should know of it. */
export function Facts(props: NotesProps): JSX.Element {
  const { job, freshness } = props;
  const nowS = useJobClock(job, freshness);
  return (
    <>
      <TimeBar job={job} freshness={freshness} />
      <p className="jp-slurm-Facts" title={moments(job)}>
        {[...time(job, nowS), ...facts(job)].join(' · ')}
      </p>
      <Notes {...props} />
    </>
  );
}

function Notes({ job, freshness, connection, reasons }: NotesProps): JSX.Element {
  const nowS = useJobClock(job, freshness);
  return (
    <>
      {notes(job, freshness, connection, nowS, reasons).map(one => (
        <NoteLine key={one.text} note={one} />
      ))}
    </>
  );
}

/** How far a job is that runs: an array by its tasks, another one by its time limit. */
function TimeBar({ job, freshness }: Pick<NotesProps, 'job' | 'freshness'>): JSX.Element | null {
  const nowS = useJobClock(job, freshness);
  const part = used(job, nowS);
  return part === null ? null : (
    <div className="jp-slurm-Bar" aria-hidden="true">
      <div style={{ width: `${part * 100}%` }} />
    </div>
  );
}

/** Return the time to measure from: it stands once the job has ended or nothing newer is known. */
function useJobClock(job: Job, freshness: Freshness): number {
  const since = job.started_s ?? job.submitted_s ?? job.created_s;
  const isOver = isFinal(job.state);
  const isUnknown = freshness.problem !== null || job.problem !== null;
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

/** The exact moments of its life. */
function moments(job: Job): string {
  return [
    job.submitted_s === null ? '' : trans.__('Submitted: %1', exactly(job.submitted_s)),
    job.started_s === null ? '' : trans.__('Started: %1', exactly(job.started_s)),
    job.ended_s === null ? '' : trans.__('Ended: %1', exactly(job.ended_s))
  ]
    .filter(line => line !== '')
    .join('\n');
}
