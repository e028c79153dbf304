// What there is to know of a job beside its output: its places, Slurm's own record, its environment.
// Asked for while somebody looks.
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

/** The details, asked for once `wanted`, and anew when the way to the job, or what Slurm's record says
 * of it, may be another. What was told before the way was lost is told on, beside the problem. */
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
            empty={trans.__('Slurm does not know the job any more, or has not been asked yet.')}
          />
          <Pairs
            title={trans.__('Environment')}
            pairs={environment}
            empty={trans.__('Neither the job nor the profile of its cluster sets any variable.')}
          />
        </>
      ) : null}
    </>
  );
}

/** Where its files are; Slurm's record tells of those that it has been given itself. */
function Places({ details, commands }: Props): JSX.Element {
  const { job, record } = details;
  const places: [string, string | null | undefined][] = [
    [trans.__('Notebook'), job.notebook],
    [trans.__('Works in'), details.folder],
    [trans.__('Folder on the cluster'), job.job_dir],
    ['Python', job.python_path],
    [trans.__('Standard output'), record.StdOut],
    [trans.__('Standard error'), record.StdErr === record.StdOut ? null : record.StdErr],
    [trans.__('Files come to'), job.fetch_to]
  ];
  return (
    <section>
      <h3>{trans.__('Places')}</h3>
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

/** With the times that Slurm gives as UTC epoch seconds as people read them. */
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
  /** null: it is kept back. */
  pairs: Record<string, string | null>;
  empty: string;
}

/** So few are read without a filter. */
const FEW = 8;

function Pairs({ title, pairs, empty }: PairsProps): JSX.Element {
  const [filter, setFilter] = useState('');
  const all = Object.entries(pairs);
  const sought = filter.toLowerCase();
  const shown = all.filter(([name, value]) =>
    `${name} ${value ?? ''}`.toLowerCase().includes(sought)
  );
  return (
    <section aria-label={title}>
      <h3>
        {title}{' '}
        {all.length <= FEW ? null : (
          <input
            type="text"
            className="jp-slurm-JobFilter"
            aria-label={trans.__('Filter: %1', title)}
            placeholder={trans.__('Filter')}
            value={filter}
            onChange={event => setFilter(event.currentTarget.value)}
          />
        )}
      </h3>
      {all.length === 0 ? <p className="jp-slurm-Empty">{empty}</p> : null}
      {all.length > 0 && shown.length === 0 ? (
        <p className="jp-slurm-Empty">{trans.__('Nothing of it has this text.')}</p>
      ) : null}
      <table className="jp-slurm-Pairs">
        <tbody>
          {shown.map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{visible(name)}</th>
              <td>
                {value === null ? (
                  <span
                    role="img"
                    aria-label={trans.__('kept back')}
                    title={trans.__('It may be a secret, and is kept back.')}
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
