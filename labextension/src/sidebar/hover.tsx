// The card beside a row that somebody points at: all that a row has no room for. It opens after a
// moment, and while it is there what the job uses is watched.
import type { TranslationBundle } from '@jupyterlab/translation';
import { useCallback, useEffect, useLayoutEffect, useRef, useState, type JSX } from 'react';
import { isFinal, stateWord, tone, visible } from '../format';
import { useFeed } from '../grid/feed';
import type { ISlurmModel, UsageView } from '../tokens';
import type { JobRow } from './rows';
import { exactTimes, facts, load } from './words';

const MOMENT_MS = 500;
const GAP_PX = 4;

/** The row that is pointed at for a moment, and where it is. */
export interface Pointed {
  key: string;
  box: DOMRect;
}

/** What is pointed at, and the listener that a list of rows needs for it. */
export function usePointed(keyAt: (at: number) => string): {
  pointed: Pointed | null;
  over: (target: EventTarget | null) => void;
} {
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const timer = useRef(0);
  const last = useRef<Element | null>(null);
  const over = useCallback(
    (target: EventTarget | null) => {
      const row = target instanceof Element ? target.closest('[data-at]') : null;
      if (row === last.current) {
        return;
      }
      last.current = row;
      window.clearTimeout(timer.current);
      setPointed(null);
      if (row !== null) {
        const key = keyAt(Number(row.getAttribute('data-at')));
        timer.current = window.setTimeout(() => {
          setPointed({ key, box: row.getBoundingClientRect() });
        }, MOMENT_MS);
      }
    },
    [keyAt]
  );
  useEffect(
    () => () => {
      window.clearTimeout(timer.current);
    },
    []
  );
  return { pointed, over };
}

interface Props {
  row: JobRow;
  box: DOMRect;
  model: ISlurmModel;
  nowS: number;
  trans: TranslationBundle;
}

export function HoverCard({ row, box, model, nowS, trans }: Props): JSX.Element {
  const card = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = card.current;
    if (element !== null) {
      // In the top layer: the sidebar cuts off what is wider than itself.
      element.showPopover();
      element.style.left = `${box.right + GAP_PX}px`;
      element.style.top = `${Math.max(0, Math.min(box.top, window.innerHeight - element.offsetHeight))}px`;
    }
  }, [box]);
  const id = row.id !== null && !isFinal(row.state) ? row.id : null;
  const open = useCallback(() => model.usage(id ?? ''), [model, id]);
  const { view } = useFeed<UsageView>(id === null ? null : open);
  const lines = [...facts(row, nowS, trans), ...load(view?.samples.at(-1), trans)];
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
          {trans.__('%1 on %2', row.slurmId ?? row.id ?? '', visible(row.cluster))}
        </span>
      </p>
      <p className="jp-slurm-State" data-tone={tone(row.state)} title={row.state}>
        {stateWord(row.state, trans)}
      </p>
      {lines.map(line => (
        <p key={line}>{line}</p>
      ))}
      {exactTimes(row, trans)
        .split('\n')
        .map(line => (
          <p key={line} className="jp-slurm-Quiet">
            {line}
          </p>
        ))}
    </div>
  );
}
