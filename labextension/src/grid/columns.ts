// What a column of a grid is, and how somebody has arranged them: which, how wide, in what order,
// by which it is sorted. Pure.

export interface Column<T> {
  /** Also the name that a filter's word knows it by: `user:ana`. */
  id: string;
  title: string;
  /** In pixels, to begin with. */
  width: number;
  /** Shown until somebody chooses. */
  usual: boolean;
  /** Aligned to the right. */
  number: boolean;
  text: (item: T, nowS: number) => string;
  /** More than the text, for who points at it. */
  hint?: (item: T, nowS: number) => string;
  /** What it is sorted by; null comes last in both directions. */
  value: (item: T) => string | number | null;
  /** What a filter's words find in it. */
  words: (item: T) => string;
  /** What a filter compares with `<`, `=` and `>`; null: never true. */
  amount?: (item: T, nowS: number) => number | null;
  /** The amount is of time: `2h`, `30m`. */
  span?: boolean;
}

export type Sorting = Readonly<{ column: string; down: boolean }>;

/** As it is remembered: JSON. */
export type Arrangement = Readonly<{
  /** Those that are shown, in their order. */
  columns: readonly string[];
  /** In pixels, where they are others than to begin with. */
  widths: Readonly<Record<string, number>>;
  sorting: Sorting;
}>;

/** A column as it is shown. */
export interface Shown<T> {
  column: Column<T>;
  width: number;
  /** Text has its share of the room that is left, but for a width that somebody has chosen. */
  grows: boolean;
}

export const NARROWEST_PX = 40;

/** Returns the width in px, enough for the head; Japanese letters are nearly twice as wide. */
export function widthOf<T>({ width, title }: Column<T>, isSorted = false): number {
  const wide = title.match(/[\u3000-\uffef]/gu)?.length ?? 0;
  return Math.max(width, Math.ceil((isSorted ? 38 : 24) + 7.3 * title.length + 5.7 * wide));
}

export function usual<T>(columns: readonly Column<T>[], sorting: Sorting): Arrangement {
  const ids = columns.filter(column => column.usual).map(column => column.id);
  return { columns: ids, widths: {}, sorting };
}

/** Columns that are no more are left out. */
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

/** The same ids with `id` moved so many places to the right. */
export function moved(ids: readonly string[], id: string, places: number): string[] {
  const at = ids.indexOf(id);
  const rest = ids.filter(one => one !== id);
  rest.splice(Math.min(rest.length, Math.max(0, at + places)), 0, ...(at < 0 ? [] : [id]));
  return rest;
}

/** By another column, or the other way round. */
export function sortedBy({ column, down }: Sorting, id: string): Sorting {
  return { column: id, down: column === id && !down };
}

/** What was remembered, as far as it can still be used. */
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
