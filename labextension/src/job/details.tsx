// The details of a job: its paths, Slurm's record and its environment.
import type { CommandRegistry } from '@lumino/commands';
import { useCallback, useEffect, useState, type JSX } from 'react';
import { exactly } from '../exactly';
import { visible } from '../format';
import { problemOf } from '../model/model';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job, JobDetails, Problem } from '../wire';
import { CopyButton } from '../parts';

export interface Asked {
  details: JobDetails | null;
  problem: Problem | null;
  again: () => void;
}

/**
 * Fetch the details once `wanted`, and again when the job or the connection changes. After an error
 * keep the old details.
 */
export function useDetails(model: ISlurmModel, job: Job, wanted: boolean): Asked {
  const { id, state, cluster, restarts, name, reason, limit_s: limit } = job;
  const way = model.connections.get(cluster)?.state;
  const isReached = model.freshness.problem === null;
  const [details, setDetails] = useState<JobDetails | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (!wanted || !isReached) {
      return undefined;
    }
    let stale = false;
    model.details(id).then(
      found => {
        if (!stale) {
          setDetails(before =>
            found.problem === null || before === null
              ? found
              : { ...before, job: found.job, events: found.events }
          );
          setProblem(found.problem);
        }
      },
      (error: unknown) => {
        if (!stale) {
          setProblem(problemOf(error));
        }
      }
    );
    return () => {
      stale = true;
    };
  }, [model, id, state, restarts, name, reason, limit, way, wanted, isReached, round]);
  const again = useCallback(() => setRound(before => before + 1), []);
  return { details, problem, again };
}

interface Props {
  details: JobDetails;
  commands: CommandRegistry;
}

export function DetailsPane({ details, commands }: Props): JSX.Element {
  const { record, environment } = details;
  return (
    <>
      <Places details={details} commands={commands} />
      {details.problem === null ? (
        <>
          <Pairs
            title={trans.__("Slurm's record")}
            pairs={readable(record)}
            empty={trans.__('Slurm has no record of this job.')}
          />
          <Pairs
            title={trans.__('Environment')}
            pairs={environment}
            empty={trans.__('No environment variables set.')}
          />
        </>
      ) : null}
    </>
  );
}

/** The paths of the job. */
function Places({ details, commands }: Props): JSX.Element {
  const { job, record } = details;
  const places: [string, string | null | undefined][] = [
    [trans.__('Notebook'), job.notebook],
    [trans.__('Working directory'), details.folder],
    [trans.__('Job directory'), job.job_dir],
    ['Python', job.python_path],
    [trans.__('Standard output'), record.StdOut],
    [trans.__('Standard error'), record.StdErr === record.StdOut ? null : record.StdErr],
    [trans.__('Fetched files'), job.fetch_to]
  ];
  return (
    <section>
      <h3>{trans.__('Paths')}</h3>
      <table className="jp-slurm-Pairs jp-slurm-Places">
        <tbody>
          {places.map(([name, path]) =>
            path ? (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>
                  <div className="jp-slurm-Place">
                    {path === job.notebook ? (
                      <button
                        className="jp-slurm-JobLink"
                        title={visible(path)}
                        onClick={() => void commands.execute(CommandIDs.goToCell, { id: job.id })}
                      >
                        {visible(path)}
                      </button>
                    ) : (
                      <span title={visible(path)}>{visible(path)}</span>
                    )}
                    <CopyButton text={() => path} what={name} />
                  </div>
                </td>
              </tr>
            ) : null
          )}
        </tbody>
      </table>
    </section>
  );
}

/** The record, with Slurm's epoch seconds as local times. */
function readable(record: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(record).map(([name, value]) => [
      name,
      /(Time|Start|End|Submit|Eligible|Eval)$/.test(name) && /^\d{10}$/.test(value)
        ? exactly(Number(value))
        : value
    ])
  );
}

interface PairsProps {
  title: string;
  /** Values by name; null for a hidden value. */
  pairs: Record<string, string | null>;
  empty: string;
}

function Pairs({ title, pairs, empty }: PairsProps): JSX.Element {
  const all = Object.entries(pairs);
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      {all.length === 0 ? <p className="jp-slurm-Empty">{empty}</p> : null}
      <table className="jp-slurm-Pairs">
        <tbody>
          {all.map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{visible(name)}</th>
              <td>
                {value === null ? (
                  <span
                    role="img"
                    aria-label={trans.__('hidden')}
                    title={trans.__('Hidden because the value may be secret.')}
                  >
                    •••
                  </span>
                ) : (
                  visible(value)
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
