// What each node and GPU of a job uses, to be compared: rows, those of many that stand out, and which
// GPUs are idle. Pure: samples and a job in, numbers out.
import { isFinal } from '../format';
import type { Job, UsageSample } from '../wire';
import { byNode, gpusOf, isSilent, type NodeSamples } from './measured';
import { asked, average, mean, MOST_SHOWN, peak, total, type Point } from './samples';

export interface Amount {
  /** null: it is not told. */
  value: number | null;
  /** What it has for itself; null: nobody set an amount. */
  limit: number | null;
}

export interface Use {
  kind: 'node' | 'gpu';
  node: string;
  /** A GPU's place on its node. */
  index: number;
  /** A GPU's name. */
  name: string;
  /** Cores; of a GPU 0 to 1. */
  busy: Amount;
  memory: Amount;
}

/** A GPU below this share is idle. */
const IDLE = 0.05;
/** It is told once it has been so for this long, and at so many looks. */
const IDLE_S = 300;
const IDLE_LOOKS = 3;
/** By so much of what it has something must differ from the median to stand out. */
const APART = 0.25;

export function share({ value, limit }: Amount): number | null {
  return value === null || !limit ? null : Math.min(1, Math.max(0, value / limit));
}

/**
 * Each node, and after it its GPUs: what they use now, or once the job is over how busy they were on
 * average, and the most memory that they held.
 */
export function usesOf(samples: readonly UsageSample[], job: Job): Use[] {
  const nodes = ofThisRun(samples, job);
  const { cpus, memoryMib } = asked(job, nodes);
  const part = (amount: number | null): number | null =>
    amount === null ? null : amount / nodes.length;
  const of = value(nodes, isFinal(job.state));
  const gpus = gpusOf(nodes);
  return nodes.flatMap(({ name: node }, at): Use[] => [
    {
      kind: 'node',
      node,
      index: 0,
      name: '',
      busy: { value: of(at, one => one.cpus, average), limit: part(cpus) },
      memory: { value: of(at, one => one.memory_mib, peak), limit: part(memoryMib) }
    },
    ...gpus
      .filter(gpu => gpu.at === at)
      .map(({ index, name, memoryMib: limit }): Use => {
        const busy = of(at, one => one.gpus[index]?.utilisation, average);
        const full = of(at, one => one.gpus[index]?.memory_mib, peak);
        return {
          kind: 'gpu',
          node,
          index,
          name,
          busy: { value: busy, limit: 1 },
          memory: { value: full, limit }
        };
      })
  ]);
}

/** All of a kind as one: nodes' amounts are added up, GPUs are busy on average. */
export function summed(uses: readonly Use[]): { busy: Amount; memory: Amount } {
  const add = (amounts: readonly Amount[], together: typeof total): Amount => ({
    value: together(amounts.map(one => one.value).filter(one => one !== null)),
    limit: together(amounts.map(one => one.limit).filter(one => one !== null))
  });
  return {
    busy: add(
      uses.map(one => one.busy),
      uses[0]?.kind === 'gpu' ? mean : total
    ),
    memory: add(
      uses.map(one => one.memory),
      total
    )
  };
}

/** Those that differ most from the others of their kind, in the order in which they were. */
export function outliers(uses: readonly Use[]): Use[] {
  const busy = apart(uses.map(one => share(one.busy)));
  const memory = apart(uses.map(one => share(one.memory)));
  return uses
    .map((use, at) => ({ use, at, distance: Math.max(busy[at] ?? 0, memory[at] ?? 0) }))
    .filter(({ distance }) => distance >= APART)
    .sort((one, other) => other.distance - one.distance)
    .slice(0, MOST_SHOWN)
    .sort((one, other) => one.at - other.at)
    .map(({ use }) => use);
}

/** How far each is from the median; 0 where it does not tell. */
function apart(shares: readonly (number | null)[]): number[] {
  const told = shares.filter(one => one !== null).sort((one, other) => one - other);
  const middle = told[Math.floor(told.length / 2)] ?? 0;
  return shares.map(one => (one === null ? 0 : Math.abs(one - middle)));
}

export interface Idle {
  gpus: number;
  of: number;
  /** All of them for at least so long. */
  forS: number;
}

/** GPUs that a running job holds and has not used for minutes; null: there are none. */
export function idleGpus(samples: readonly UsageSample[], job: Job): Idle | null {
  if (isFinal(job.state)) {
    return null;
  }
  const nodes = ofThisRun(samples, job);
  const gpus = gpusOf(nodes);
  const heard = heardFrom(nodes);
  const spans = gpus
    .map(({ at, index }) => (heard[at] ? idleFor(nodes[at]?.samples ?? [], index) : null))
    .filter(forS => forS !== null);
  return spans.length === 0
    ? null
    : { gpus: spans.length, of: gpus.length, forS: Math.min(...spans) };
}

/** null: it is not idle, has not been for long, or does not tell. */
function idleFor(samples: readonly UsageSample[], index: number): number | null {
  let first = samples.length;
  while (first > 0 && (samples[first - 1]?.gpus[index]?.utilisation ?? 1) < IDLE) {
    first -= 1;
  }
  const looks = samples.length - first;
  const forS = (samples.at(-1)?.time_s ?? 0) - (samples[first]?.time_s ?? 0);
  return looks >= IDLE_LOOKS && forS >= IDLE_S ? forS : null;
}

/** Without what was before the job was put back into the queue. */
function ofThisRun(samples: readonly UsageSample[], job: Job): NodeSamples[] {
  const { started_s: since } = job;
  return since === null
    ? []
    : byNode(
        samples.filter(one => one.time_s >= since),
        job
      );
}

/** Of each node, whether its last sample tells of now. */
function heardFrom(nodes: readonly NodeSamples[]): boolean[] {
  const nowS = Math.max(...nodes.map(({ samples }) => samples.at(-1)?.time_s ?? 0));
  return nodes.map(({ samples }) => {
    const last = samples.at(-1);
    const pauseS = (last?.time_s ?? 0) - (samples.at(-2)?.time_s ?? last?.time_s ?? 0);
    return last !== undefined && !isSilent(last, nowS, pauseS);
  });
}

/** Returns what a node's quantity is now, or was over time. */
function value(
  nodes: readonly NodeSamples[],
  over: boolean
): (
  at: number,
  pick: (sample: UsageSample) => number | null | undefined,
  inAll: (points: readonly Point[]) => number | null
) => number | null {
  const heard = heardFrom(nodes);
  return (at, pick, inAll) => {
    const samples = nodes[at]?.samples ?? [];
    if (over) {
      return inAll(samples.map(one => [one.time_s, pick(one) ?? null]));
    }
    const last = samples.at(-1);
    return last !== undefined && heard[at] ? (pick(last) ?? null) : null;
  };
}
