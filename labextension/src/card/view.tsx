// A job's card under its cell: what it does, where and for how long, what to do about it. What it
// says is facts.ts's; nothing of it comes from the notebook but what `Saved` shows as text.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import { useState, type JSX } from 'react';
import { useClock } from '../clock';
import { isFinal, isRunning, stateWord, timeUsed, tone, visible } from '../format';
import { stateSign } from '../icons';
import { DashboardButtons } from '../labs/dashboards';
import { CommandIDs, type Freshness, type ISlurmModel } from '../tokens';
import type { Connection, Job } from '../wire';
import { attaching, facts, notes, place, type Note } from './facts';
import { LogTail } from './tail';

interface CardProps {
  job: Job;
  model: ISlurmModel;
  commands: CommandRegistry;
  trans: TranslationBundle;
}

export function JobCardView({ job, model, commands, trans }: CardProps): JSX.Element {
  const [log, setLog] = useState(false);
  const name = visible(job.name);
  const run = (id: string): void => {
    void commands.execute(id, { id: job.id });
  };
  const open = (): void => {
    run(CommandIDs.openJob);
  };
  const connection = model.connections.get(job.cluster);
  const attach = attaching(job, trans);
  return (
    <section
      className="jp-slurm jp-slurm-Card"
      data-tone={tone(job.state)}
      aria-label={trans.__('Job %1', `${name}, ${place(job, trans)}`)}
    >
      <div className="jp-slurm-CardHead">
        <span
          className="jp-slurm-State"
          data-tone={tone(job.state)}
          title={job.state}
          role="status"
        >
          <span aria-hidden="true">{stateSign(job.state)} </span>
          {stateWord(job.state, trans)}
        </span>
        <bdi className="jp-slurm-CardName">{name}</bdi>
        <span className="jp-slurm-Quiet" title={job.id}>
          {place(job, trans)}
        </span>
        <span className="jp-slurm-CardActions">
          <Button
            label={log ? trans.__('Hide log') : trans.__('Log')}
            title={trans.__('The last lines of its output')}
            expanded={log}
            click={() => {
              setLog(!log);
            }}
          />
          <Button
            label={trans.__('Open')}
            title={trans.__('Log, resources, script and details in a tab')}
            click={open}
          />
          {isFinal(job.state) ? null : (
            <Button
              label={trans.__('Cancel')}
              title={trans.__('Ask the job to end')}
              click={() => {
                run(CommandIDs.cancel);
              }}
            />
          )}
        </span>
      </div>
      <Facts job={job} freshness={model.freshness} connection={connection} trans={trans} />
      <DashboardButtons job={job} commands={commands} trans={trans} />
      {attach === null ? null : <NoteLine note={attach} />}
      {wantsLogin(job, connection) ? (
        <Button
          label={trans.__('Log in')}
          title={trans.__('Connect to %1', visible(job.cluster))}
          click={() => {
            void commands.execute(CommandIDs.connect, { cluster: job.cluster });
          }}
        />
      ) : null}
      {log ? <LogTail model={model} jobId={job.id} open={open} trans={trans} /> : null}
    </section>
  );
}

interface ButtonProps {
  label: string;
  title: string;
  expanded?: boolean;
  click: () => void;
}

function Button({ label, title, expanded, click }: ButtonProps): JSX.Element {
  return (
    <button className="jp-slurm-Button" title={title} aria-expanded={expanded} onClick={click}>
      {label}
    </button>
  );
}

function wantsLogin(job: Job, connection: Connection | undefined): boolean {
  return (
    !isFinal(job.state) && (connection?.state === 'login-needed' || connection?.state === 'lost')
  );
}

interface FactsProps {
  job: Job;
  freshness: Freshness;
  connection?: Connection | undefined;
  trans: TranslationBundle;
}

/** Where and for how long it runs, and what a person should know of it. */
export function Facts({ job, freshness, connection, trans }: FactsProps): JSX.Element {
  const over = isFinal(job.state);
  const nowS = useClock(over ? null : (job.started_s ?? job.submitted_s ?? job.created_s));
  const used = isRunning(job.state) ? timeUsed(job, nowS) : null;
  return (
    <>
      {used === null ? null : (
        <div className="jp-slurm-Bar" aria-hidden="true">
          <div style={{ width: `${used * 100}%` }} />
        </div>
      )}
      <p className="jp-slurm-Facts" title={moments(job, trans)}>
        {facts(job, nowS, trans).join(' · ')}
      </p>
      {notes(job, freshness, connection, nowS, trans).map(one => (
        <NoteLine key={one.text} note={one} />
      ))}
    </>
  );
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

/** What stands in backticks is there to be copied. */
function Marked({ text }: { text: string }): JSX.Element {
  const pieces = text.split('`');
  return (
    <span>
      {pieces.map((piece, at) =>
        at % 2 === 1 && at < pieces.length - 1 ? <code key={at}>{piece}</code> : piece
      )}
    </span>
  );
}

/** The exact moments of its life. */
function moments(job: Job, trans: TranslationBundle): string {
  const exact = (atS: number): string => new Date(atS * 1000).toLocaleString();
  return [
    job.submitted_s === null ? '' : trans.__('Submitted: %1', exact(job.submitted_s)),
    job.started_s === null ? '' : trans.__('Started: %1', exact(job.started_s)),
    job.ended_s === null ? '' : trans.__('Ended: %1', exact(job.ended_s))
  ]
    .filter(line => line !== '')
    .join('\n');
}

interface SavedProps {
  /** What there is to say of the job instead of its card. */
  sentence: string;
  /** The plain text that the notebook was saved with; '': none. */
  saved: string;
}

/** No card of ours is saved with more. */
const MOST_SAVED = 16 * 1024;

/** Of a job that is not known: what the notebook says of it, and that it is only that. */
export function Saved({ sentence, saved }: SavedProps): JSX.Element {
  return (
    <div className="jp-slurm jp-slurm-Card" data-tone="ended">
      <p className="jp-slurm-CardNote">{sentence}</p>
      {saved === '' ? null : (
        <pre className="jp-slurm-Saved">
          {saved.slice(0, MOST_SAVED).split('\n').map(visible).join('\n')}
        </pre>
      )}
    </div>
  );
}
