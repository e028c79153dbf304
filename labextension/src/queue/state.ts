// Hooks with the sorted and filtered rows of the queue's panel.
import { useCallback, useEffect, useMemo, useRef } from 'react';
import type { Column, Sorting } from '../grid/columns';
import { useFeed, type Followed } from '../grid/feed';
import { ordered } from '../grid/order';
import { narrows, prepare, testOf } from '../grid/terms';
import type { ISlurmModel, QueueView } from '../tokens';
import type { Row } from '../wire';
import { tie } from './listing';

/** The queue while the panel is visible. */
export function useQueue(
  model: ISlurmModel,
  cluster: string,
  everyone: boolean
): Followed<QueueView> {
  return useFeed(useCallback(() => model.queue(cluster, everyone), [model, cluster, everyone]));
}

export function useOrder(
  followed: Followed<QueueView>,
  columns: readonly Column<Row>[],
  { column, down }: Sorting
): readonly Row[] {
  const before = useRef<{ by: string; order: Row[] }>({ by: '', order: [] });
  return useMemo(() => {
    const by = `${column} ${down}`;
    const was = before.current.by === by ? before.current.order : [];
    const wanted = columns.find(({ id }) => id === column);
    const order = ordered(was, followed.view?.rows ?? [], wanted, { column, down }, tie);
    before.current = { by, order };
    return order;
  }, [followed, columns, column, down]);
}

/**
 * Return the matching rows in order. If the words have only grown, search only the earlier matches.
 */
export function useFound(
  order: readonly Row[],
  words: string,
  columns: readonly Column<Row>[]
): readonly Row[] {
  const before = useRef({ order, words: '', found: order });
  return useMemo(() => {
    const was = before.current;
    const among = was.order === order && narrows(was.words, words) ? was.found : order;
    const found = among.filter(testOf(words, columns, Date.now() / 1000));
    before.current = { order, words, found };
    return found;
  }, [order, words, columns]);
}

const AT_ONCE = 2000;

/** Prepare the filter's texts in small batches while the page is idle. */
export function usePrepared(order: readonly Row[], columns: readonly Column<Row>[]): void {
  useEffect(() => {
    let timer = 0;
    const step = (from: number): void => {
      prepare(order.slice(from, from + AT_ONCE), columns);
      if (from + AT_ONCE < order.length) {
        timer = window.setTimeout(step, 0, from + AT_ONCE);
      }
    };
    timer = window.setTimeout(step, 0, 0);
    return () => window.clearTimeout(timer);
  }, [order, columns]);
}
