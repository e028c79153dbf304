// What was measured of a job, made ready for charts and sentences: series, averages, what was asked
// for. Pure: samples and a job in, numbers out. What each node and GPU uses is uses.ts's.
import type { Job, UsageSample } from '../wire';
import { byNode, gpusOf, momentsOf, type Gpu, type NodeSamples, type NodesAt } from './measured';

/** UTC epoch seconds and a value; null: it was not measured then. */
export type Point = readonly [timeS: number, value: number | null];

export interface Series {
  /** Of `gpus` and `gpus-memory` all GPUs together: how busy they are on average, what they hold. */
  kind: 'cpu' | 'memory' | 'gpu' | 'gpu-memory' | 'gpus' | 'gpus-memory';
  /** Of several of a kind on a node. */
  index: number;
  /** A GPU's name; '' otherwise. */
  name: string;
  /** A GPU's node where there are several; '' otherwise. */
  node: string;
  points: readonly Point[];
  /** What it had for itself; null: nobody set an amount. */
  limit: number | null;
}

/** More than so many nodes or GPUs are summed up. */
export const MOST_SHOWN = 8;
/**
 * One of each that was measured, the nodes' CPUs and memory as sums, and many GPUs together; a part
 * of a GPU, as MIG makes them, does not say how busy it is, one without memory of its own not how
 * full that is, and such a series has no values.
 */
export function seriesOf(samples: readonly UsageSample[], job: Job): Series[] {
  const nodes = byNode(samples, job);
  const moments = momentsOf(nodes, job.started_s ?? 0);
  const { cpus, memoryMib } = asked(job, nodes);
  const over = (pick: (at: NodesAt) => number | null | undefined): Point[] =>
    moments.map(([timeS, at]) => [timeS, pick(at) ?? null]);
  const series = (
    kind: Series['kind'],
    limit: number | null,
    points: readonly Point[],
    { index = 0, name = '', node = '' } = {}
  ): Series => ({ kind, index, name, node, points, limit });
  const each = ({ at, index, name, memoryMib: limit }: Gpu): Series[] => {
    const what = { index, name, node: nodes.length > 1 ? (nodes[at]?.name ?? '') : '' };
    const busy = over(all => all[at]?.gpus[index]?.utilisation);
    const full = over(all => all[at]?.gpus[index]?.memory_mib);
    return [series('gpu', 1, busy, what), series('gpu-memory', limit, full, what)];
  };
  const together = (gpus: readonly Gpu[]): Series[] => {
    const busy = over(all => {
      const { added, count } = allGpus(all, 'utilisation');
      return count === 0 ? null : added / count;
    });
    const full = over(all => {
      const { added, count } = allGpus(all, 'memory_mib');
      return count === 0 ? null : added;
    });
    const limit = total(gpus.map(one => one.memoryMib).filter(one => one !== null));
    return [series('gpus', 1, busy), series('gpus-memory', limit, full)];
  };
  const gpus = gpusOf(nodes);
  return [
    series(
      'cpu',
      cpus,
      over(at => sum(at.map(one => one?.cpus ?? 0)))
    ),
    series(
      'memory',
      memoryMib,
      over(at => sum(at.map(one => one?.memory_mib ?? 0)))
    ),
    ...(gpus.length > MOST_SHOWN ? together(gpus) : gpus.flatMap(each))
  ];
}

/** What those GPUs tell that tell it, added up, and how many these are; there may be very many. */
function allGpus(
  nodes: NodesAt,
  key: 'utilisation' | 'memory_mib'
): { added: number; count: number } {
  let added = 0;
  let count = 0;
  for (const node of nodes) {
    for (const gpu of node?.gpus ?? []) {
      const value = gpu[key];
      if (value !== null) {
        added += value;
        count += 1;
      }
    }
  }
  return { added, count };
}

/** Those that are drawn, GPUs first, as what costs most: what a GPU never says is not. */
export function charted(series: readonly Series[]): Series[] {
  const ofGpu = ({ kind }: Series): boolean => kind.startsWith('gpu');
  return [
    ...series.filter(one => ofGpu(one) && peak(one.points) !== null),
    ...series.filter(one => !ofGpu(one))
  ];
}

/** What the job asked for on those of its nodes that are measured. */
export function asked(
  job: Job,
  nodes: readonly NodeSamples[]
): { cpus: number | null; memoryMib: number | null } {
  const { cpus, memory_mib: memory } = job.usage ?? { cpus: null, memory_mib: null };
  const all = Math.max(1, job.nodes.length);
  const measured = nodes.filter(({ name }) => job.nodes.includes(name)).length;
  const share = measured === 0 ? 1 : measured / all;
  return {
    cpus: cpus === null ? null : cpus * share,
    memoryMib: memory === null ? null : memory * share
  };
}

/** At most `most` points: each of a stretch of time, its mean, or its most for what has a peak. */
export function thinned(points: readonly Point[], most: number, peaks: boolean): Point[] {
  if (points.length <= most) {
    return [...points];
  }
  const size = points.length / most;
  return Array.from({ length: most }, (_, at): Point => {
    const part = points.slice(Math.floor(at * size), Math.floor((at + 1) * size));
    const values = measured(part);
    const value =
      values.length === 0 ? null : peaks ? Math.max(...values) : sum(values) / values.length;
    return [part.at(-1)?.[0] ?? 0, value];
  });
}

export function measured(points: readonly Point[]): number[] {
  return points.map(([, value]) => value).filter(value => value !== null);
}

/** Each value counts for the time since the one before it. null: nothing was measured. */
export function average(points: readonly Point[]): number | null {
  let weights = 0;
  let total = 0;
  points.forEach(([time, value], at) => {
    const before = points[at - 1]?.[0];
    const weight = before === undefined ? (points.length === 1 ? 1 : 0) : time - before;
    if (value !== null) {
      weights += weight;
      total += weight * value;
    }
  });
  return weights > 0 ? total / weights : null;
}

/** The most; null: nothing was measured. */
export function peak(points: readonly Point[]): number | null {
  const values = measured(points);
  return values.length === 0 ? null : values.reduce((most, one) => Math.max(most, one));
}

/** The part of its CPU time that was used, 0 to 1, once it is over; null: nobody counted. */
export function cpuShare({ usage }: Job): number | null {
  const { cpu_s: used, cpus, elapsed_s: elapsed } = usage ?? {};
  return typeof used === 'number' && cpus && elapsed ? Math.min(1, used / (cpus * elapsed)) : null;
}

export function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : sum(values) / values.length;
}

/** The sum; null: there is nothing to add. */
export function total(values: readonly number[]): number | null {
  return values.length === 0 ? null : sum(values);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, one) => total + one, 0);
}
