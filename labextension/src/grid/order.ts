// Very many items in the order of a column, sorted incrementally. No I/O.
import type { Column, Sorting } from './columns';

/**
 * Return the items in an order that does not depend on their previous order. `before` is the last
 * result by the same column, which saves most of the work if little has changed.
 */
export function ordered<T>(
  before: readonly T[],
  items: Iterable<T>,
  column: Column<T> | undefined,
  { down }: Sorting,
  /** Compares items that are equal in the column. */
  tie: (one: T, other: T) => number
): T[] {
  const left = new Set(items);
  const kept = before.filter(item => left.delete(item));
  // For a sorted run and a short rest, the built-in sort is as fast as a merge.
  const keyed = [...kept, ...left].map(item => ({ item, key: column?.value(item) ?? null }));
  const sign = down ? -1 : 1;
  keyed.sort(({ item: one, key: a }, { item: other, key: b }) => {
    if (a === b) {
      return tie(one, other);
    }
    if (a === null || b === null) {
      return a === null ? 1 : -1;
    }
    return a < b ? -sign : a > b ? sign : tie(one, other);
  });
  return keyed.map(({ item }) => item);
}
