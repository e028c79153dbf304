// What nodes mean to somebody who looks for room: what can be had, and of which kind. Pure.
import type { Node } from '../wire';

export type Condition = 'idle' | 'mixed' | 'full' | 'out';

export const CONDITIONS: readonly Condition[] = ['idle', 'mixed', 'full', 'out'];

/** Words and marks of Slurm's for a node that no job can begin on. */
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

/** GPUs that a job could have; null: this Slurm does not tell. */
export function freeGpus(node: Node): number | null {
  if (condition(node) === 'out') {
    return 0;
  }
  return node.gpus_used == null ? null : Math.max(0, (node.gpus ?? 0) - node.gpus_used);
}

/** The part of a node that is in use: of its GPUs, of its CPUs where it has none. 0 to 1. */
export function usedPart(node: Node): number {
  const [used, all] = node.gpus
    ? [node.gpus_used ?? 0, node.gpus]
    : [node.cpus_used, Math.max(1, node.cpus)];
  return Math.min(1, Math.max(0, used / all));
}

/** Nodes of one kind of GPU. */
export interface Kind {
  /** As Slurm calls it; '': a GPU without a name; null: no GPU. */
  type: string | null;
  nodes: readonly Node[];
  gpus: number;
  /** null: this Slurm does not tell. */
  freeGpus: number | null;
  idleNodes: number;
}

/** Those with GPUs first, the most frequent kind first. */
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
      idleNodes: same.filter(node => condition(node) === 'idle').length
    }))
    .sort((one, other) => other.gpus - one.gpus);
}

/** null: one of them is not known. */
function sum(nodes: readonly Node[], of: (node: Node) => number | null): number | null {
  return nodes.reduce<number | null>((whole, node) => {
    const one = of(node);
    return whole === null || one === null ? null : whole + one;
  }, 0);
}

/** Names as people count: n2 before n10. */
export function byName(one: Node, other: Node): number {
  return names.compare(one.name, other.name);
}

const names = new Intl.Collator('en', { numeric: true });
