// The map of nodes: a box for each node, with a cell for each GPU, filled by its use.
import { memo, type CSSProperties, type JSX } from 'react';
import { visible } from '../format';
import { trans } from '../translation';
import type { Node } from '../wire';
import { conditionWords } from './columns';
import { byName, condition, freeGpus, kindsOf, usedPart } from './nodes';
import { Share } from './partitions';

const CELL_PX = 9;
const BOX_PX = 24;
const MOST_CELLS = 16;
/** Maximum number of boxes with names. */
const MOST_NAMED = 100;

interface Props {
  nodes: readonly Node[];
}

export const NodeMap = memo(function NodeMap({ nodes }: Props): JSX.Element {
  const named = nodes.length <= MOST_NAMED;
  return (
    <>
      <p className="jp-slurm-Quiet">
        {trans.__(
          'Each box is a node, and each cell in it is a GPU. The filled part shows used GPUs, or used CPUs on nodes without GPUs.'
        )}
      </p>
      {kindsOf(nodes).map(
        ({ type, nodes: same, gpus, freeGpus: free, cpus, freeCpus, idleNodes }) => (
          <section key={type} className="jp-slurm-Kind">
            <h3>
              {type === null ? trans.__('Without GPUs') : type || trans.__('GPUs')}
              {type === null ? null : (
                <Share free={free} all={gpus} label={trans.__('GPUs free')} />
              )}
              <Share free={freeCpus} all={cpus} label={trans.__('CPUs free')} />
              <Share free={idleNodes} all={same.length} label={trans.__('nodes idle')} />
            </h3>
            <div className="jp-slurm-Map">
              {[...same].sort(byName).map(node => (
                <Box key={node.name} node={node} named={named} />
              ))}
            </div>
          </section>
        )
      )}
    </>
  );
});

const Box = memo(function Box({ node, named }: { node: Node; named: boolean }) {
  const cells = Math.min(MOST_CELLS, node.gpus ?? 0);
  const told = toldOf(node);
  const style: CSSProperties & Record<'--used' | '--cell', string> = {
    width: cells > 0 ? cells * CELL_PX + 2 : BOX_PX,
    '--used': `${100 * usedPart(node)}%`,
    '--cell': cells > 0 ? `${100 / cells}%` : '100%'
  };
  return (
    <span className="jp-slurm-NodeBox" title={told.join('\n')}>
      <span
        role="img"
        className="jp-slurm-Node"
        data-condition={condition(node)}
        data-gpus={cells > 0}
        style={style}
        aria-label={told.join(', ')}
      />
      {named ? <span aria-hidden="true">{node.name}</span> : null}
    </span>
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
