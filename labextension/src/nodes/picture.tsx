// The nodes as a picture: a small box for each, a cell for each of its GPUs, filled as they are in
// use. What a box says is its title; whoever does not look has the table.
import { memo, type CSSProperties, type JSX } from 'react';
import { visible } from '../format';
import { trans } from '../translation';
import type { Node } from '../wire';
import { Share } from './bars';
import { conditionWords } from './columns';
import { byName, condition, freeGpus, kindsOf, usedPart } from './nodes';

const CELL_PX = 9;
const BOX_PX = 18;
const MOST_CELLS = 16;

interface Props {
  nodes: readonly Node[];
}

export const Picture = memo(function Picture({ nodes }: Props): JSX.Element {
  return (
    <>
      {kindsOf(nodes).map(({ type, nodes: same, gpus, freeGpus: free, idleNodes }) => (
        <section key={type} className="jp-slurm-Kind">
          <h3>
            {type === null ? trans.__('Without GPUs') : type || trans.__('GPUs')}
            {type === null ? null : <Share free={free} all={gpus} label={trans.__('GPUs free')} />}
            <Share free={idleNodes} all={same.length} label={trans.__('nodes idle')} />
          </h3>
          <div className="jp-slurm-Picture">
            {[...same].sort(byName).map(node => (
              <Box key={node.name} node={node} />
            ))}
          </div>
        </section>
      ))}
    </>
  );
});

const Box = memo(function Box({ node }: { node: Node }) {
  const cells = Math.min(MOST_CELLS, node.gpus ?? 0);
  const told = toldOf(node);
  const style: CSSProperties & Record<'--used' | '--cell', string> = {
    width: cells > 0 ? cells * CELL_PX + 2 : BOX_PX,
    '--used': `${100 * usedPart(node)}%`,
    '--cell': cells > 0 ? `${100 / cells}%` : '100%'
  };
  return (
    <span
      role="img"
      className="jp-slurm-Node"
      data-condition={condition(node)}
      data-gpus={cells > 0}
      style={style}
      title={told.join('\n')}
      aria-label={told.join(', ')}
    />
  );
});

function toldOf(node: Node): string[] {
  const how = conditionWords()[condition(node)];
  return [
    `${node.name}: ${how} (${node.state})`,
    trans.__('%1 of %2 CPUs in use', node.cpus_used, node.cpus),
    node.gpus ? trans.__('%1 of %2 GPUs free', freeGpus(node) ?? '?', node.gpus) : '',
    node.partitions.join(', '),
    visible(node.reason ?? '')
  ].filter(line => line !== '');
}
