// The selected rows of a grid. No DOM.

export type Choosing = 'only' | 'add' | 'range';

export interface Choice {
  /** The keys of the rows. */
  keys: ReadonlySet<string>;
  /** The first row of a range. */
  anchor: string;
}

export const NOTHING: Choice = { keys: new Set(), anchor: '' };

export function chosen(
  { keys, anchor }: Choice,
  rows: readonly { key: string }[],
  find: (key: string) => number,
  at: number,
  how: Choosing
): Choice {
  const key = rows[at]?.key;
  if (key === undefined) {
    return NOTHING;
  }
  if (how === 'range') {
    const from = Math.max(0, find(anchor));
    const range = rows.slice(Math.min(from, at), Math.max(from, at) + 1);
    return { keys: new Set(range.map(row => row.key)), anchor: rows[from]?.key ?? key };
  }
  if (how === 'only') {
    return { keys: new Set([key]), anchor: key };
  }
  const next = new Set(keys);
  if (!next.delete(key)) {
    next.add(key);
  }
  return { keys: next, anchor: key };
}
