// What the queue's panel keeps for its views: the entries in order, whose they are. Hooks alone.
import { useCallback, useEffect, useMemo, useRef } from 'react';
import type { Column, Sorting } from '../grid/columns';
import { useFeed, type Followed } from '../grid/feed';
import { ordered } from '../grid/order';
import { narrows, prepare, testOf } from '../grid/terms';
import type { ISlurmModel, QueueView } from '../tokens';
import type { QueueEntry } from '../wire';
import { tie } from './listing';

export interface Queue {
  followed: Followed<QueueView>;
  isOwn: (entry: QueueEntry) => boolean;
}

/**
 * The queue while it is seen. This user's jobs are watched beside everyone's: of the same listing,
 * so that it costs the cluster nothing, they tell who this user is there.
 */
export function useQueue(model: ISlurmModel, cluster: string, everyone: boolean): Queue {
  const openMine = useCallback(() => model.queue(cluster, false), [model, cluster]);
  const openAll = useCallback(() => model.queue(cluster, true), [model, cluster]);
  const mine = useFeed(openMine);
  const all = useFeed(everyone ? openAll : null);
  const users = useMemo(
    () => new Set([...(mine.view?.entries.values() ?? [])].map(entry => entry.user)),
    [mine]
  );
  const isOwn = useCallback(
    (entry: QueueEntry) => entry.id != null || users.has(entry.user),
    [users]
  );
  return { followed: everyone ? all : mine, isOwn };
}

export function useOrder(
  { followed }: Queue,
  columns: readonly Column<QueueEntry>[],
  { column, down }: Sorting
): readonly QueueEntry[] {
  const before = useRef<{ by: string; order: QueueEntry[] }>({ by: '', order: [] });
  return useMemo(() => {
    const by = `${column} ${down}`;
    const was = before.current.by === by ? before.current.order : [];
    const wanted = columns.find(({ id }) => id === column);
    const order = ordered(
      was,
      followed.view?.entries.values() ?? [],
      wanted,
      { column, down },
      tie
    );
    before.current = { by, order };
    return order;
  }, [followed, columns, column, down]);
}

/** What the words find, in that order; where they have only grown, among what was found before. */
export function useFound(
  order: readonly QueueEntry[],
  words: string,
  columns: readonly Column<QueueEntry>[]
): readonly QueueEntry[] {
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

/** Prepares the filter's words a few at a time, when there is nothing else to do. */
export function usePrepared(
  order: readonly QueueEntry[],
  columns: readonly Column<QueueEntry>[]
): void {
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
