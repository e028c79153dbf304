// Where the row of a key is. A hook alone.
import { useCallback, useMemo } from 'react';

/** Where the row of a key is; looked up once it is asked. */
export function useFind(rows: readonly { key: string }[]): (key: string) => number {
  const index = useMemo(() => ({ rows, at: null as Map<string, number> | null }), [rows]);
  return useCallback(
    (key: string) => {
      if (key === '') {
        return -1;
      }
      index.at ??= new Map(index.rows.map((row, at) => [row.key, at]));
      return index.at.get(key) ?? -1;
    },
    [index]
  );
}
