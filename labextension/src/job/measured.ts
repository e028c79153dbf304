// A job's samples by the node that they are of, and all its nodes at one moment. Pure.
import type { Job, UsageSample } from '../wire';

/** What was measured on one node, the oldest first. */
export interface NodeSamples {
  /** '': all nodes together, as Slurm samples them. */
  name: string;
  samples: readonly UsageSample[];
}

/** A GPU, by its place on its node. */
export interface Gpu {
  /** The place of its node. */
  at: number;
  index: number;
  name: string;
  memoryMib: number | null;
  /** Whether it ever said how busy it is. */
  tells: boolean;
}

/** Each node's sample, by its place; undefined: it tells nothing of that moment. */
export type NodesAt = readonly (UsageSample | undefined)[];

/** A file may name as many as it likes; the agent reads those of 256 nodes. */
const MOST_NODES = 512;
/** A node that has not been measured for so long, or for three of its pauses, is silent. */
const SILENT_S = 180;

/** In the job's order of its nodes; after these come those that it has run on before. */
export function byNode(samples: readonly UsageSample[], job: Job): NodeSamples[] {
  const found = new Map<string, UsageSample[]>(job.nodes.map(name => [name, []]));
  for (const one of samples) {
    const same = found.get(one.node);
    if (same !== undefined) {
      same.push(one);
    } else if (found.size < MOST_NODES) {
      found.set(one.node, [one]);
    }
  }
  return [...found]
    .filter(([, some]) => some.length > 0)
    .map(([name, some]) => ({ name, samples: some }));
}

/** Of each node those that it ever told of. */
export function gpusOf(nodes: readonly NodeSamples[]): Gpu[] {
  return nodes.flatMap(({ samples }, at) =>
    samples
      .reduce<UsageSample['gpus']>(
        (known, { gpus }) => (gpus.length > known.length ? gpus : known),
        []
      )
      .map(({ name, memory_total_mib: memoryMib }, index) => {
        const tells = samples.some(one => (one.gpus[index]?.utilisation ?? null) !== null);
        return { at, index, name, memoryMib, tells };
      })
  );
}

/**
 * Nodes are measured each in its own time. A moment has at most one new sample of each, and of one
 * that is due later its last, unless that is old or of an earlier run.
 */
export function momentsOf(
  nodes: readonly NodeSamples[],
  startedS: number
): (readonly [timeS: number, at: NodesAt])[] {
  const places = new Map(nodes.map(({ name }, at) => [name, at]));
  const all = nodes.flatMap(({ samples }) => samples);
  if (nodes.length > 1) {
    all.sort((one, other) => one.time_s - other.time_s);
  }
  const latest: (UsageSample | undefined)[] = nodes.map(() => undefined);
  const pauseS = nodes.map(() => 0);
  const moments: [number, (UsageSample | undefined)[]][] = [];
  const fresh = new Set<number>();
  const close = (timeS: number): void => {
    moments.push([
      timeS,
      latest.map((one, at) =>
        one === undefined ||
        isSilent(one, timeS, pauseS[at] ?? 0) ||
        (one.time_s < startedS && timeS >= startedS)
          ? undefined
          : one
      )
    ]);
    fresh.clear();
  };
  all.forEach((sample, place) => {
    const at = places.get(sample.node) ?? 0;
    const before = all[place - 1];
    if (before !== undefined && (fresh.has(at) || fresh.size === nodes.length)) {
      close(before.time_s);
    }
    pauseS[at] = sample.time_s - (latest[at]?.time_s ?? sample.time_s);
    latest[at] = sample;
    fresh.add(at);
  });
  const last = all.at(-1);
  if (last !== undefined) {
    close(last.time_s);
  }
  return moments;
}

/** Whether a node's last sample is too old to tell of that time. */
export function isSilent(last: UsageSample, timeS: number, pauseS: number): boolean {
  return timeS - last.time_s > Math.max(SILENT_S, 3 * pauseS);
}
