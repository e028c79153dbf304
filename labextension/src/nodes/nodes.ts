// The condition of nodes, and their kinds by GPU. No I/O.
import type { Node } from '../wire';

export type Condition = 'idle' | 'mixed' | 'full' | 'out';

export const CONDITIONS: readonly Condition[] = ['idle', 'mixed', 'full', 'out'];

/** Slurm's words and marks for a node that does not start jobs. */
const OUT =
  /^(down|drain|drng|fail|maint|resv|reserved|reboot|unk|no_respond|inval|future|blocked|power)|[*$@^!%]/;

export function condition(node: Pick<Node, 'state' | 'cpus' | 'cpus_used'>): Condition {
  const state = node.state.toLowerCase();
  if (OUT.test(state)) {
    return 'out';
  }
  if (state.startsWith('idle') || (state.startsWith('plan') && node.cpus_used === 0)) {
    return 'idle';
  }
  return node.cpus_used < node.cpus ? 'mixed' : 'full';
}

/** Free GPUs; null if this Slurm does not report them. */
export function freeGpus(node: Node): number | null {
  if (condition(node) === 'out') {
    return 0;
  }
  return node.gpus_used == null ? null : Math.max(0, (node.gpus ?? 0) - node.gpus_used);
}

export function freeCpus(node: Node): number {
  return condition(node) === 'out' ? 0 : node.cpus - node.cpus_used;
}

/** The used share of the node's GPUs, or of its CPUs if it has none; 0 to 1. */
export function usedPart(node: Node): number {
  const [used, all] = node.gpus
    ? [node.gpus_used ?? 0, node.gpus]
    : [node.cpus_used, Math.max(1, node.cpus)];
  return Math.min(1, Math.max(0, used / all));
}

/** The nodes with one kind of GPU. */
export interface Kind {
  /** Slurm's name for the GPU; '' for a GPU without a name, null for no GPU. */
  type: string | null;
  nodes: readonly Node[];
  gpus: number;
  /** Free GPUs; null if this Slurm does not report them. */
  freeGpus: number | null;
  cpus: number;
  freeCpus: number;
  idleNodes: number;
}

/** Return the kinds, those with the most GPUs first. */
export function kindsOf(nodes: readonly Node[]): Kind[] {
  const kinds = new Map<string | null, Node[]>();
  for (const node of nodes) {
    const type = node.gpus ? (node.gpu_type ?? '') : null;
    const same = kinds.get(type);
    if (same === undefined) {
      kinds.set(type, [node]);
    } else {
      same.push(node);
    }
  }
  return [...kinds]
    .map(([type, same]) => ({
      type,
      nodes: same,
      gpus: sum(same, node => node.gpus ?? 0) ?? 0,
      freeGpus: sum(same, freeGpus),
      cpus: sum(same, node => node.cpus) ?? 0,
      freeCpus: sum(same, freeCpus) ?? 0,
      idleNodes: same.filter(node => condition(node) === 'idle').length
    }))
    .sort((one, other) => other.gpus - one.gpus);
}

/** Return the sum; null if one of the values is unknown. */
function sum(nodes: readonly Node[], of: (node: Node) => number | null): number | null {
  return nodes.reduce<number | null>((whole, node) => {
    const one = of(node);
    return whole === null || one === null ? null : whole + one;
  }, 0);
}

/** Compare names in numeric order, with n2 before n10. */
export function byName(one: Node, other: Node): number {
  return names.compare(one.name, other.name);
}

const names = new Intl.Collator('en', { numeric: true });
