// Conversion of a job's samples into series with limits, averages, peaks, and idle GPUs. No I/O.
import { isFinal } from '../format';
import type { Job, UsageSample } from '../wire';

/** UTC epoch seconds and a value; null if it was not measured. */
export type Point = readonly [timeS: number, value: number | null];

export interface Series {
  /** A quantity. `gpu` is the average of all GPUs, 0 to 1, and the others are sums. */
  kind: 'cpu' | 'memory' | 'gpu' | 'gpu-memory';
  points: readonly Point[];
  /** The amount that the job has; null if unknown. */
  limit: number | null;
}

/** The samples of one node, the oldest first. Slurm's own samples are for all nodes together. */
type NodeSamples = readonly UsageSample[];

/** Maximum number of nodes, since a file may name any number. The agent reads 256. */
const MOST_NODES = 512;
/** A node without samples for this long, or for three of its intervals, is silent. */
const SILENT_S = 180;
/** A GPU with less load than this share is idle. */
const IDLE = 0.05;
/** An idle GPU is reported after this time, and this many samples. */
const IDLE_S = 300;
const IDLE_LOOKS = 3;

/**
 * Return the series. The series of GPUs ignore samples without GPUs. MIG parts do not report a
 * load, so their points are null.
 */
export function seriesOf(samples: readonly UsageSample[], job: Job): Series[] {
  const nodes = byNode(samples, job);
  const moments = momentsOf(nodes);
  const { cpus = null, memory_mib: memory = null } = job.usage ?? {};
  // The figures of the job cover all its nodes.
  const own = nodes.filter(([one]) => job.nodes.includes(one?.node ?? '')).length;
  const share = own === 0 ? 1 : own / Math.max(1, job.nodes.length);
  const over = (
    kind: Series['kind'],
    limit: number | null,
    pick: (at: readonly UsageSample[]) => number | null
  ): Series => ({ kind, limit, points: moments.map(([timeS, at]) => [timeS, pick(at)]) });
  const gpus = nodes.flatMap(most);
  const known = (values: readonly (number | null)[]): number[] =>
    values.filter(one => one !== null);
  return [
    over('cpu', cpus === null ? null : cpus * share, at => sum(at.map(one => one.cpus))),
    over('memory', memory === null ? null : memory * share, at =>
      sum(at.map(one => one.memory_mib))
    ),
    ...(gpus.length === 0
      ? []
      : [
          over('gpu', 1, at => mean(known(at.flatMap(one => one.gpus.map(g => g.utilisation))))),
          over('gpu-memory', sum(known(gpus.map(one => one.memory_total_mib))) || null, at => {
            const held = known(at.flatMap(one => one.gpus.map(g => g.memory_mib)));
            return held.length === 0 ? null : sum(held);
          })
        ])
  ];
}

function byNode(samples: readonly UsageSample[], job: Job): NodeSamples[] {
  const found = new Map<string, UsageSample[]>(job.nodes.map(name => [name, []]));
  for (const one of samples) {
    const same = found.get(one.node);
    if (same !== undefined) {
      same.push(one);
    } else if (found.size < MOST_NODES) {
      found.set(one.node, [one]);
    }
  }
  return [...found.values()].filter(some => some.length > 0);
}

/** Return all GPUs that a node has ever reported. */
function most(samples: NodeSamples): UsageSample['gpus'] {
  return samples.reduce<UsageSample['gpus']>(
    (known, { gpus }) => (gpus.length > known.length ? gpus : known),
    []
  );
}

/**
 * Return the times of the node with the most samples, each with the nearest sample of every node.
 */
function momentsOf(nodes: readonly NodeSamples[]): [timeS: number, at: UsageSample[]][] {
  const times = nodes.reduce<NodeSamples>(
    (long, one) => (one.length > long.length ? one : long),
    []
  );
  const places = nodes.map(() => 0);
  return times.map(({ time_s: timeS }) => {
    const distance = (one: UsageSample | undefined): number =>
      one === undefined ? Infinity : Math.abs(one.time_s - timeS);
    const near = nodes.flatMap((samples, at) => {
      let place = places[at] ?? 0;
      while (distance(samples[place + 1]) <= distance(samples[place]) && samples[place + 1]) {
        place += 1;
      }
      places[at] = place;
      const found = samples[place];
      return found === undefined || isSilent(samples, place, timeS) ? [] : [found];
    });
    return [timeS, near];
  });
}

/** Return whether the sample at this index is too old or too new for that time. */
function isSilent(samples: NodeSamples, place: number, timeS: number): boolean {
  const one = samples[place]?.time_s ?? -Infinity;
  const pauseS = one - (samples[place - 1]?.time_s ?? one);
  return Math.abs(timeS - one) > Math.max(SILENT_S, 3 * pauseS);
}

/** Return at most `count` points. Each is the mean of a stretch of time, or its peak. */
export function thinned(points: readonly Point[], count: number, peaks: boolean): Point[] {
  if (points.length <= count) {
    return [...points];
  }
  const size = points.length / count;
  return Array.from({ length: count }, (_, at): Point => {
    const part = points.slice(Math.floor(at * size), Math.floor((at + 1) * size));
    return [part.at(-1)?.[0] ?? 0, peaks ? peak(part) : mean(measured(part))];
  });
}

function measured(points: readonly Point[]): number[] {
  return points.map(([, value]) => value).filter(value => value !== null);
}

/** Return the average over time. Each value counts for the time since the previous one. */
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

export function peak(points: readonly Point[]): number | null {
  const values = measured(points);
  return values.length === 0 ? null : values.reduce((most, one) => Math.max(most, one));
}

/** Return the share of its CPU time that an ended job used, 0 to 1; null if unknown. */
export function cpuShare({ usage }: Job): number | null {
  const { cpu_s: used, cpus, elapsed_s: elapsed } = usage ?? {};
  return typeof used === 'number' && cpus && elapsed ? Math.min(1, used / (cpus * elapsed)) : null;
}

function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : sum(values) / values.length;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, one) => total + one, 0);
}

export interface Idle {
  gpus: number;
  of: number;
  /** Seconds for which all these GPUs were idle. */
  forS: number;
}

/** Return GPUs that a running job holds and has not used for minutes; null if it uses all. */
export function idleGpus(samples: readonly UsageSample[], job: Job): Idle | null {
  const { started_s: since, state } = job;
  if (isFinal(state) || since === null) {
    return null;
  }
  const ofThisRun = samples.filter(one => one.time_s >= since);
  const nowS = ofThisRun.reduce((latest, one) => Math.max(latest, one.time_s), 0);
  const spans = byNode(ofThisRun, job).flatMap(node =>
    most(node).map((_, index) => idleFor(node, index, nowS))
  );
  const idle = spans.filter(forS => forS !== null);
  return idle.length === 0
    ? null
    : { gpus: idle.length, of: spans.length, forS: Math.min(...idle) };
}

/**
 * Return the seconds for which the GPU has been idle; null if it is busy, was busy recently, or is
 * silent.
 */
function idleFor(samples: NodeSamples, index: number, nowS: number): number | null {
  let first = samples.length;
  while (first > 0 && (samples[first - 1]?.gpus[index]?.utilisation ?? 1) < IDLE) {
    first -= 1;
  }
  const last = samples.at(-1);
  if (last === undefined || isSilent(samples, samples.length - 1, nowS)) {
    return null;
  }
  const forS = last.time_s - (samples[first]?.time_s ?? last.time_s);
  return samples.length - first >= IDLE_LOOKS && forS >= IDLE_S ? forS : null;
}
