// The card beside a row, with details of the job. While it is open, the job's usage is watched.
import { Fragment, useCallback, useLayoutEffect, useRef, type JSX } from 'react';
import { isFinal, stateWord, tone, visible } from '../format';
import { useFeed } from '../grid/feed';
import type { ISlurmModel, UsageView } from '../tokens';
import { trans } from '../translation';
import type { Row } from '../wire';
import { facts, reasons, table } from './hover_words';

const GAP_PX = 4;
/** If the space beside the row is narrower than this, the card is below the row. */
const LEAST_PX = 240;

interface Props {
  row: Row;
  box: DOMRect;
  model: ISlurmModel;
  nowS: number;
}

export function HoverCard({ row, box, model, nowS }: Props): JSX.Element {
  const card = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = card.current;
    if (element !== null) {
      // The card is in the top layer, since the sidebar clips wider content.
      element.showPopover();
      const left = box.right + GAP_PX;
      const isBeside = window.innerWidth - left >= LEAST_PX;
      element.style.left = `${isBeside ? left : 0}px`;
      const lowest = window.innerHeight - element.offsetHeight;
      const top = isBeside ? box.top : box.bottom + GAP_PX;
      element.style.top = `${Math.max(0, Math.min(top, lowest))}px`;
    }
  }, [box]);
  const id = row.kind !== 'listed' && !isFinal(row.state) ? row.id : null;
  const open = useCallback(() => model.usage(id ?? ''), [model, id]);
  const { view } = useFeed<UsageView>(id === null ? null : open);
  return (
    <div
      {...{ popover: 'manual' }}
      ref={card}
      role="tooltip"
      className="jp-slurm jp-slurm-HoverCard"
    >
      <p>
        <bdi className="jp-slurm-HoverName">{visible(row.name)}</bdi>{' '}
        <span className="jp-slurm-Quiet">
          {trans.__('%1 on %2', row.slurm_id ?? row.id ?? '', visible(row.cluster))}
        </span>
      </p>
      <p>
        <span className="jp-slurm-State" data-tone={tone(row.state)}>
          {stateWord(row.state)}
        </span>
        {['', ...facts(row, nowS)].join(' · ')}
      </p>
      {reasons(row, nowS).map(line => (
        <p key={line}>{line}</p>
      ))}
      <dl>
        {table(row, view?.samples.at(-1)).map(([label, value]) => (
          <Fragment key={label}>
            <dt className="jp-slurm-Quiet">{label}</dt>
            <dd>{value}</dd>
          </Fragment>
        ))}
      </dl>
    </div>
  );
}
