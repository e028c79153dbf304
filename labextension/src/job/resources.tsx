// The usage of a job over time, compared with its request: CPUs, memory and GPUs as charts, and a
// line of efficiency. samples.ts computes the numbers.
import type { CommandRegistry } from '@lumino/commands';
import { useCallback, useMemo, useState, type JSX } from 'react';
import { NoteLine } from '../card/view';
import { duration, isFinal, memory, moment, momentWithSeconds, sessionOf } from '../format';
import { useResting } from '../grid/feed';
import { numeral, together } from '../language';
import { Marked } from '../marked';
import { isSame } from '../messages';
import { Trouble } from '../parts';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job, Problem, UsageSample } from '../wire';
import { Chart } from './chart';
import { average, cpuShare, idleGpus, peak, seriesOf, thinned, type Series } from './samples';

/** Maximum number of points, since a chart is at most this many pixels wide. */
const MOST_POINTS = 320;
const EXACT_S = 600;

interface Props {
  job: Job;
  model: ISlurmModel;
  commands: CommandRegistry;
}

interface Measured {
  samples: readonly UsageSample[];
  problem: Problem | null;
}

export function ResourcesPane({ job, model, commands }: Props): JSX.Element {
  const { samples, problem } = useUsage(model, job.id);
  const series = useMemo(() => seriesOf(samples, job), [samples, job]);
  const efficiency = efficiencyOf(job, series);
  const idle = useMemo(() => idleSentence(samples, job), [samples, job]);
  // Slurm's own figures show the usage of a short job that was never measured.
  const isKnown = problem?.code === 'not-measured' && efficiency !== '';
  return (
    <div className="jp-slurm-Resources">
      {problem === null || isKnown || isSame(problem, model.freshness.problem) ? null : (
        <Trouble problem={problem} cluster={job.cluster} commands={commands} />
      )}
      <div role="status">
        {idle === null ? null : <NoteLine note={{ tone: 'look', text: idle }} />}
      </div>
      <WithoutGpus job={job} samples={samples} />
      {efficiency === '' ? null : <p>{efficiency}</p>}
      {samples.length > 0 ? (
        <div className="jp-slurm-Charts">
          {series
            .filter(({ points }) => peak(points) !== null)
            .map(one => (
              <SeriesChart key={one.kind} series={one} />
            ))}
        </div>
      ) : problem === null ? (
        <p className="jp-slurm-Empty">{nothing(job)}</p>
      ) : null}
    </div>
  );
}

function useUsage(model: ISlurmModel, jobId: string): Measured {
  const [measured, setMeasured] = useState<Measured>({ samples: [], problem: null });
  const open = useCallback(() => {
    const view = model.usage(jobId);
    const take = (): void =>
      setMeasured({ samples: view.samples, problem: view.freshness.problem });
    view.changed.connect(take);
    take();
    return view;
  }, [model, jobId]);
  useResting(open);
  return measured;
}

/** Return the reason why the charts are missing. */
function nothing(job: Job): string {
  if (job.started_s !== null) {
    return isFinal(job.state)
      ? trans.__('No usage was recorded for this job.')
      : trans.__('The first measurement takes a few seconds.');
  }
  return isFinal(job.state)
    ? trans.__('This job never ran.')
    : trans.__('Not started yet. Usage will appear here once the job runs.');
}

interface WithoutGpusProps {
  job: Job;
  samples: readonly UsageSample[];
}

/**
 * Return the reason for a missing chart of GPUs. The GPUs of a session's cell belong to the
 * session.
 */
function WithoutGpus({ job, samples }: WithoutGpusProps): JSX.Element | null {
  const measured = samples.some(({ gpus }) => gpus.length > 0);
  if (samples.length === 0 || measured || sessionOf(job) !== null) {
    return null;
  }
  return (
    <p className="jp-slurm-Quiet">
      <Marked
        text={
          job.gpus === 0
            ? trans.__('The job did not request GPUs. Add `%1`.', '--gpus 1')
            : trans.__('Slurm and nvidia-smi report no GPU usage.')
        }
      />
    </p>
  );
}

function idleSentence(samples: readonly UsageSample[], job: Job): string | null {
  const idle = idleGpus(samples, job);
  if (idle === null) {
    return null;
  }
  const since = duration(idle.forS - (idle.forS % 60));
  return idle.of === 1
    ? trans.__('GPU idle for %1.', since)
    : trans.__('%1 of %2 GPUs idle for %3.', idle.gpus, idle.of, since);
}

/** One line with Slurm's own figures, or with those of the samples while Slurm has none. */
function efficiencyOf(job: Job, [cpu, held, gpu]: readonly Series[]): string {
  const busy = average(cpu?.points ?? []);
  const cpus = cpuShare(job) ?? (busy !== null && cpu?.limit ? busy / cpu.limit : null);
  const most = job.usage?.peak_memory_mib ?? peak(held?.points ?? []);
  const gpus = average(gpu?.points ?? []);
  const limit = held?.limit ?? null;
  return together([
    cpus === null ? null : trans.__('CPU efficiency: %1.', percent(Math.min(1, cpus))),
    !most
      ? null
      : limit === null
        ? trans.__('Peak memory: %1.', memory(most))
        : trans.__('Peak memory: %1 of %2.', memory(most), memory(limit)),
    gpus === null ? null : trans.__('GPU utilization: %1.', percent(gpus))
  ]);
}

function cores(value: number): string {
  return numeral(Math.round(10 * value) / 10);
}

function percent(value: number): string {
  return `${Math.round(value * 100)} %`;
}

function titleOf({ kind }: Series): string {
  switch (kind) {
    case 'cpu':
      return trans.__('CPU cores');
    case 'memory':
      return trans.__('Memory');
    case 'gpu':
      return trans.__('GPU utilization');
    case 'gpu-memory':
      return trans.__('GPU memory');
  }
}

function formatOf({ kind }: Series): (value: number) => string {
  switch (kind) {
    case 'cpu':
      return cores;
    case 'gpu':
      return percent;
    default:
      return memory;
  }
}

function SeriesChart({ series }: { series: Series }): JSX.Element {
  const title = titleOf(series);
  const format = formatOf(series);
  const shown = useMemo(
    () => thinned(series.points, MOST_POINTS, series.kind.endsWith('memory')),
    [series]
  );
  const summary = trans.__(
    '%1: %2 on average, %3 at most, of %4',
    title,
    format(average(series.points) ?? 0),
    format(peak(series.points) ?? 0),
    series.limit === null ? trans.__('no limit') : format(series.limit)
  );
  return (
    <Chart
      title={title}
      points={shown}
      limit={series.limit}
      format={format}
      time={timeOf(series)}
      summary={summary}
    />
  );
}

/** Format a time, with seconds if the whole chart covers a few minutes. */
function timeOf({ points }: Series): (timeS: number) => string {
  const nowS = Date.now() / 1000;
  const spanS = (points.at(-1)?.[0] ?? 0) - (points[0]?.[0] ?? 0);
  return timeS => (spanS < EXACT_S ? momentWithSeconds(timeS, nowS) : moment(timeS, nowS));
}
