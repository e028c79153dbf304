// This user's ended jobs from other tools. They are read from Slurm's accounting on demand.
import { useCallback, useState, type JSX } from 'react';
import { isOpen } from '../format';
import { problemOf } from '../model/model';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { ListedJob, Problem } from '../wire';

/** The periods to look back over, in days. Each click selects the next period. */
const DAYS = [1, 7, 30, 90] as const;

export interface History {
  jobs: readonly ListedJob[];
  /** The period; 0 if not requested yet. */
  days: number;
  busy: boolean;
  problem: Problem | null;
  /** Requests the next period; null at the longest one. */
  further: (() => void) | null;
  nextDays: number;
}

export function useHistory(model: ISlurmModel, clusters: readonly string[]): History {
  const [told, setTold] = useState<Pick<History, 'jobs' | 'days' | 'problem'>>({
    jobs: [],
    days: 0,
    problem: null
  });
  const [busy, setBusy] = useState(false);
  const nextDays = DAYS.find(days => days > told.days);
  const ask = useCallback(
    async (days: number) => {
      setBusy(true);
      const jobs: ListedJob[] = [];
      let problem: Problem | null = null;
      const reached = [...model.connections.values()].filter(isOpen).map(one => one.cluster);
      for (const cluster of clusters.filter(one => reached.includes(one))) {
        try {
          jobs.push(...(await model.call<ListedJob[]>('history', { cluster, days })));
        } catch (error) {
          problem = problemOf(error);
        }
      }
      setTold(before => ({ jobs, problem, days: problem === null ? days : before.days }));
      setBusy(false);
    },
    [model, clusters]
  );
  return {
    ...told,
    busy,
    nextDays: nextDays ?? told.days,
    further: nextDays === undefined ? null : () => void ask(nextDays)
  };
}

export function HistoryFoot({ history }: { history: History }): JSX.Element {
  const { days, busy, problem, further, nextDays } = history;
  const shown = days === 0 ? '' : trans._n('%1 day', '%1 days', days);
  const told = problem?.message ?? shown;
  return (
    <div className="jp-slurm-History">
      {further === null ? null : (
        <button
          className="jp-slurm-Button"
          title={trans.__("Show jobs from Slurm's accounting that have no record on this machine")}
          disabled={busy}
          onClick={further}
        >
          {busy
            ? trans.__('Loading…')
            : trans._n('Show the last day', 'Show the last %1 days', nextDays)}
        </button>
      )}
      <span className="jp-slurm-Quiet" role="status" title={told}>
        {told}
      </span>
    </div>
  );
}
