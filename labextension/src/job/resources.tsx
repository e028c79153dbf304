// What a job uses over time against what it asked for: CPUs, memory, GPUs; as charts, as a table, and
// as sentences. What the numbers are is samples.ts's; each node and GPU by itself is usetable.tsx's.
import type { CommandRegistry } from '@lumino/commands';
import { useCallback, useMemo, useState, type JSX } from 'react';
import { NoteLine } from '../card/view';
import {
  duration,
  isFinal,
  memory,
  moment,
  momentWithSeconds,
  sessionOf,
  visible
} from '../format';
import { useResting } from '../grid/feed';
import { together } from '../language';
import { isSame } from '../messages';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job, Problem, UsageSample } from '../wire';
import { Chart } from './chart';
import { byNode, gpusOf } from './measured';
import { Trouble } from '../parts';
import { asked, average, charted, cpuShare, mean, peak, seriesOf, thinned } from './samples';
import type { Series } from './samples';
import { idleGpus } from './uses';
import { cores, percent, UseTable } from './usetable';

/** More than a chart has pixels would be drawn in vain; more rows would not be read. */
const MOST_POINTS = 320;
const MOST_ROWS = 60;
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
  const sentences = useSentences(job, samples, series);
  const idle = useMemo(() => idleSentence(samples, job), [samples, job]);
  const shown = charted(series);
  // Slurm's own figures say what a short job used, though nothing was measured as it ran.
  const isKnown = problem?.code === 'not-measured' && sentences.length > 0;
  return (
    <div className="jp-slurm-Resources">
      {problem === null || isKnown || isSame(problem, model.freshness.problem) ? null : (
        <Trouble problem={problem} cluster={job.cluster} commands={commands} />
      )}
      <div role="status">
        {idle === null ? null : <NoteLine note={{ tone: 'look', text: idle }} />}
      </div>
      <WithoutGpus job={job} samples={samples} />
      <UseTable samples={samples} job={job} />
      {samples.length === 0 ? (
        problem === null ? (
          <p className="jp-slurm-Empty">{nothing(job)}</p>
        ) : null
      ) : (
        <div className="jp-slurm-Charts">
          {shown.map(one => (
            <SeriesChart key={keyOf(one)} series={one} />
          ))}
        </div>
      )}
      {sentences.length === 0 ? null : <p>{together(sentences)}</p>}
      {samples.length === 0 ? null : <Table series={shown} />}
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

/** Why there is nothing to see yet. */
function nothing(job: Job): string {
  if (job.started_s !== null) {
    return isFinal(job.state)
      ? trans.__('Nothing was measured of this job.')
      : trans.__('The first measurement comes within seconds.');
  }
  return isFinal(job.state)
    ? trans.__('It never ran, so there is nothing to measure.')
    : trans.__('It has not begun yet. What it uses is measured as soon as it runs.');
}

interface WithoutGpusProps {
  job: Job;
  samples: readonly UsageSample[];
}

/** Why no GPU is among what was measured; of a session's cell its session tells. */
function WithoutGpus({ job, samples }: WithoutGpusProps): JSX.Element | null {
  const measured = samples.some(({ gpus }) => gpus.length > 0);
  if (samples.length === 0 || measured || sessionOf(job) !== null) {
    return null;
  }
  const why =
    job.gpus === 0
      ? trans.__('No GPU: the job did not ask for one (%1).', '--gpus 1')
      : job.kind === 'script'
        ? trans.__('GPUs not measured: Slurm does not measure those of a batch script.')
        : trans.__('GPUs not measured: no figures from nvidia-smi on the node.');
  return <p className="jp-slurm-Quiet">{why}</p>;
}

/** What somebody should do something about; null: nothing. */
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

function useSentences(
  job: Job,
  samples: readonly UsageSample[],
  series: readonly Series[]
): string[] {
  return useMemo(() => {
    const nodes = byNode(samples, job);
    const { cpus, memoryMib } = asked(job, nodes);
    const [cpu, used] = series;
    const kept = cpu === undefined ? null : average(cpu.points);
    const share = cpuShare(job) ?? (kept !== null && cpus ? Math.min(1, kept / cpus) : null);
    const measured = used === undefined ? null : peak(used.points);
    const told = job.usage?.peak_memory_mib ?? null;
    // Of many nodes the job itself may tell of the largest of its processes only.
    const most = nodes.length > 1 ? Math.max(measured ?? 0, told ?? 0) : (told ?? measured);
    const all = gpusOf(nodes);
    const gpus = all.filter(one => one.tells);
    const busyParts = series
      .filter(one => one.kind === 'gpu' || one.kind === 'gpus')
      .filter(one => peak(one.points) !== null)
      .map(one => average(one.points) ?? 0);
    const over = isFinal(job.state);
    const lines: string[] = [];
    if (gpus.length > 0) {
      const busy = Math.round((mean(busyParts) ?? 0) * 100);
      lines.push(
        trans._n(
          'Its GPU was busy for %2 % of the time.',
          'Its %1 GPUs were busy for %2 % of the time on average.',
          gpus.length,
          busy
        )
      );
    }
    if (gpus.length < all.length) {
      lines.push(trans.__('How busy its GPU is cannot be told: parts of a GPU (MIG) do not say.'));
    }
    if (share !== null) {
      const percent = Math.round(share * 100);
      lines.push(
        over
          ? trans.__('It used %1 % of the CPU time it asked for.', percent)
          : trans.__('So far it has used %1 % of the CPU time it asked for.', percent)
      );
    }
    if (most !== null && most > 0) {
      lines.push(
        memoryMib === null
          ? trans.__('Its memory was %1 at most.', memory(most))
          : trans.__('Its memory was %1 at most, of %2.', memory(most), memory(memoryMib))
      );
    }
    const own = nodes.filter(({ name }) => job.nodes.includes(name));
    const [only] = own;
    if (only !== undefined && own.length < job.nodes.length) {
      lines.push(
        own.length === 1 && only.name === job.nodes[0]
          ? trans.__('Measured on its first node, %1.', visible(only.name))
          : trans.__('Measured on %1 of its %2 nodes.', own.length, job.nodes.length)
      );
    }
    return lines;
  }, [job, samples, series]);
}

function keyOf({ kind, node, index }: Series): string {
  return `${kind} ${node} ${index}`;
}

function titleOf({ kind, index, name, node }: Series): string {
  switch (kind) {
    case 'cpu':
      return trans.__('CPU cores');
    case 'memory':
      return trans.__('Memory');
    case 'gpu':
      return node === ''
        ? trans.__('GPU %1 (%2)', index, visible(name))
        : trans.__('GPU %1 on %2', index, visible(node));
    case 'gpu-memory':
      return node === ''
        ? trans.__('Memory of GPU %1', index)
        : trans.__('GPU %1 on %2: memory', index, visible(node));
    case 'gpus':
      return trans.__('GPUs, on average');
    case 'gpus-memory':
      return trans.__('Memory of all GPUs');
  }
}

function formatOf({ kind }: Series): (value: number) => string {
  switch (kind) {
    case 'cpu':
      return cores;
    case 'gpu':
    case 'gpus':
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

/** With seconds where minutes would not tell one moment from another. */
function timeOf({ points }: Series): (timeS: number) => string {
  const nowS = Date.now() / 1000;
  const spanS = (points.at(-1)?.[0] ?? 0) - (points[0]?.[0] ?? 0);
  return timeS => (spanS < EXACT_S ? momentWithSeconds(timeS, nowS) : moment(timeS, nowS));
}

interface TableProps {
  series: readonly Series[];
}

/** The same as numbers, for who does not see charts or wants to copy them. */
function Table({ series }: TableProps): JSX.Element {
  const [open, setOpen] = useState(false);
  const columns = open
    ? series.map(one => thinned(one.points, MOST_ROWS, one.kind.endsWith('memory')))
    : [];
  return (
    <details onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>{trans.__('As a table')}</summary>
      <div className="jp-slurm-Scrolled" tabIndex={0} role="region" aria-label={trans.__('Table')}>
        <table className="jp-slurm-Samples">
          <thead>
            <tr>
              <th scope="col">{trans.__('Time of day')}</th>
              {series.map(one => (
                <th scope="col" key={keyOf(one)}>
                  {titleOf(one)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {columns[0]?.map(([timeS], row) => (
              <tr key={timeS}>
                <th scope="row">{momentWithSeconds(timeS, Date.now() / 1000)}</th>
                {series.map((one, at) => {
                  const value = columns[at]?.[row]?.[1] ?? null;
                  return <td key={keyOf(one)}>{value === null ? '–' : formatOf(one)(value)}</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
