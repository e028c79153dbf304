// The columns of the table of nodes. No I/O.
import { memory, visible } from '../format';
import type { Column } from '../grid/columns';
import { decimal } from '../language';
import { trans } from '../translation';
import type { Node } from '../wire';
import { condition, CONDITIONS, freeCpus, freeGpus, type Condition } from './nodes';

type NodeColumn = Column<Node>;

export function conditionWords(): Record<Condition, string> {
  return {
    idle: trans.__('idle'),
    mixed: trans.__('partly used'),
    full: trans.__('in use'),
    out: trans.__('unavailable')
  };
}

export function columnsOf(): readonly NodeColumn[] {
  return [
    {
      ...text('node', trans.__('Node'), 104, node => node.name),
      // Numeric order, with n2 before n10.
      value: node => node.name.replace(/\d+/g, digits => digits.padStart(8, '0'))
    },
    {
      // Slurm's own word is more specific about an unavailable node.
      ...text('state', trans.__('State'), 118, node =>
        condition(node) === 'out' ? node.state : conditionWords()[condition(node)]
      ),
      hint: node => node.state,
      value: node => `${CONDITIONS.indexOf(condition(node))} ${node.state}`,
      words: node => `${node.state} ${conditionWords()[condition(node)]}`.toLowerCase()
    },
    text('partition', trans.__('Partitions'), 130, node => node.partitions.join(', ')),
    count('cpus', trans.__('CPUs free'), freeCpus, {
      of: node => node.cpus
    }),
    count('gpus', trans.__('GPUs free'), freeGpus, { of: node => node.gpus ?? 0 }),
    text('type', trans.__('GPU'), 72, node => node.gpu_type ?? ''),
    {
      ...count('memory', trans.__('Memory free'), node => node.memory_free_mib ?? null),
      width: 110,
      text: node => (node.memory_free_mib == null ? '' : memory(node.memory_free_mib)),
      hint: node => (node.memory_mib == null ? '' : trans.__('of %1', memory(node.memory_mib)))
    },
    {
      ...count('load', trans.__('Load'), node => node.load ?? null),
      text: node => (node.load == null ? '' : decimal(node.load)),
      usual: false
    },
    { ...text('features', trans.__('Features'), 140, node => node.features ?? ''), usual: false },
    text('why', trans.__('Reason'), 140, node => visible(node.reason ?? ''))
  ];
}

function text(id: string, title: string, width: number, of: (node: Node) => string): NodeColumn {
  return {
    id,
    title,
    width,
    usual: true,
    number: false,
    text: of,
    words: node => of(node).toLowerCase(),
    value: node => of(node).toLowerCase() || null
  };
}

function count(
  id: string,
  title: string,
  free: (node: Node) => number | null,
  { of }: { of?: (node: Node) => number } = {}
): NodeColumn {
  const told = (node: Node): string => {
    const all = of?.(node);
    return all === 0 ? '' : `${free(node) ?? '?'}${all === undefined ? '' : ` / ${all}`}`;
  };
  return {
    id,
    title,
    width: 80,
    usual: true,
    number: true,
    text: told,
    words: told,
    value: node => (of?.(node) === 0 ? null : free(node)),
    amount: free
  };
}
