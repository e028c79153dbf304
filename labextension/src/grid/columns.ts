// The columns of a grid, and their arrangement by the user: selection, widths, order and sorting.
// No I/O.

export interface Column<T> {
  /** The ID. It is also the field of a filter: `user:ana`. */
  id: string;
  title: string;
  /** The initial width in pixels. */
  width: number;
  /** True if the column is shown by default. */
  usual: boolean;
  /** True if the text is aligned to the right. */
  number: boolean;
  text: (item: T, nowS: number) => string;
  /** The hover text. */
  hint?: (item: T, nowS: number) => string;
  /** The sort key. null comes last in both directions. */
  value: (item: T) => string | number | null;
  /** The text in which filters search. */
  words: (item: T) => string;
  /** The number that a filter compares with `<`, `=` and `>`; for null the comparison is false. */
  amount?: (item: T, nowS: number) => number | null;
  /** True if the number is a duration: `2h`, `30m`. */
  span?: boolean;
}

export type Sorting = Readonly<{ column: string; down: boolean }>;

/** The saved arrangement, as JSON. */
export type Arrangement = Readonly<{
  /** The shown columns, in order. */
  columns: readonly string[];
  /** Changed widths in pixels. */
  widths: Readonly<Record<string, number>>;
  sorting: Sorting;
}>;

/** A shown column. */
export interface Shown<T> {
  column: Column<T>;
  width: number;
  /** Text columns share the remaining width, unless the user has set a width. */
  grows: boolean;
}

export const NARROWEST_PX = 40;

/** Return the width in pixels, enough for the head. Japanese letters are nearly twice as wide. */
export function widthOf<T>({ width, title }: Column<T>, isSorted = false): number {
  const wide = title.match(/[\u3000-\uffef]/gu)?.length ?? 0;
  return Math.max(width, Math.ceil((isSorted ? 38 : 24) + 7.3 * title.length + 5.7 * wide));
}

export function usual<T>(columns: readonly Column<T>[], sorting: Sorting): Arrangement {
  const ids = columns.filter(column => column.usual).map(column => column.id);
  return { columns: ids, widths: {}, sorting };
}

/** Unknown columns are omitted. */
export function shownOf<T>(
  columns: readonly Column<T>[],
  { columns: ids, widths, sorting }: Arrangement
): Shown<T>[] {
  return ids.flatMap(id => {
    const column = columns.find(one => one.id === id);
    return column === undefined
      ? []
      : [
          {
            column,
            width: widths[id] ?? widthOf(column, id === sorting.column),
            grows: !column.number && !(id in widths)
          }
        ];
  });
}

/** Return the IDs with `id` moved to the right by `places`. */
export function moved(ids: readonly string[], id: string, places: number): string[] {
  const at = ids.indexOf(id);
  const rest = ids.filter(one => one !== id);
  rest.splice(Math.min(rest.length, Math.max(0, at + places)), 0, ...(at < 0 ? [] : [id]));
  return rest;
}

/** Sort by another column, or reverse the order. */
export function sortedBy({ column, down }: Sorting, id: string): Sorting {
  return { column: id, down: column === id && !down };
}

/** Return the usable part of a saved arrangement. */
export function remembered(saved: unknown, otherwise: Arrangement): Arrangement {
  if (typeof saved !== 'object' || saved === null) {
    return otherwise;
  }
  const { columns, widths, sorting } = saved as Partial<Arrangement>;
  return {
    columns: Array.isArray(columns) && columns.length > 0 ? columns : otherwise.columns,
    widths: typeof widths === 'object' ? widths : otherwise.widths,
    sorting: typeof sorting?.column === 'string' ? sorting : otherwise.sorting
  };
}
