// Very many items in the order of a column, kept as they change. Pure.
import type { Column, Sorting } from './columns';

/**
 * The items as sorted; the same for the same items, whatever order they came in. `before`: what was
 * given back last, by the same column; it saves the most of the work when little has changed.
 */
export function ordered<T>(
  before: readonly T[],
  items: Iterable<T>,
  column: Column<T> | undefined,
  { down }: Sorting,
  /** Orders those that are alike in the column. */
  tie: (one: T, other: T) => number
): T[] {
  const left = new Set(items);
  const kept = before.filter(item => left.delete(item));
  // A sorted run and a short rest: the sort that engines have is as good as a merge then.
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
