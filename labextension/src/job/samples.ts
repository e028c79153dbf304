// What was measured of a job, made ready for charts and sentences: series, averages, what was asked
// for. Pure: samples and a job in, numbers out.
import type { Job, UsageSample } from '../wire';

/** UTC epoch seconds and a value; null: it was not measured then. */
export type Point = readonly [timeS: number, value: number | null];

export interface Series {
  kind: 'cpu' | 'memory' | 'gpu' | 'gpu-memory';
  /** Of several of a kind. */
  index: number;
  /** A GPU's name; '' otherwise. */
  name: string;
  points: readonly Point[];
  /** What it had for itself; null: nobody set an amount. */
  limit: number | null;
}

/**
 * One of each that was measured; a part of a GPU, as MIG makes them, does not say how busy it is, one
 * without memory of its own not how full that is, and such a series has no values. Samples are of the
 * job's first node alone.
 */
export function seriesOf(samples: readonly UsageSample[], job: Job): Series[] {
  const { cpus, memoryMib } = asked(job);
  const over = (pick: (sample: UsageSample) => number | null | undefined): Point[] =>
    samples.map(sample => [sample.time_s, pick(sample) ?? null]);
  const series = (
    kind: Series['kind'],
    limit: number | null,
    pick: (sample: UsageSample) => number | null | undefined,
    index = 0,
    name = ''
  ): Series => ({ kind, index, name, points: over(pick), limit });
  const most = samples.reduce<UsageSample['gpus']>(
    (known, { gpus }) => (gpus.length > known.length ? gpus : known),
    []
  );
  return [
    series('cpu', cpus, one => one.cpus),
    series('memory', memoryMib, one => one.memory_mib),
    ...most.flatMap((gpu, at) => [
      series('gpu', 1, one => one.gpus[at]?.utilisation, at, gpu.name),
      series('gpu-memory', gpu.memory_total_mib, one => one.gpus[at]?.memory_mib, at, gpu.name)
    ])
  ];
}

/** Those that are drawn: what a GPU never says is not. */
export function charted(series: readonly Series[]): Series[] {
  return series.filter(one => !one.kind.startsWith('gpu') || peak(one.points) !== null);
}

/** What the job asked for on each of its nodes. */
export function asked(job: Job): { cpus: number | null; memoryMib: number | null } {
  const nodes = Math.max(1, job.nodes.length);
  const { cpus, memory_mib: memory } = job.usage ?? { cpus: null, memory_mib: null };
  return {
    cpus: cpus === null ? null : cpus / nodes,
    memoryMib: memory === null ? null : memory / nodes
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

function sum(values: readonly number[]): number {
  return values.reduce((total, one) => total + one, 0);
}
