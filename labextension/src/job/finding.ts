// The search in a log as a hook. search.ts finds the matches.
import { useDeferredValue, useLayoutEffect, useMemo, useState, type RefObject } from 'react';
import type { Shown, Wanted } from './output';
import { Search } from './search';

/** The search and its current match. */
export interface Finding {
  text: string;
  setText: (text: string) => void;
  search: Search;
  total: number;
  /** The number of the match, from 0. */
  number: number;
  match: { key: number; at: number } | null;
  /** The number of characters searched; null if all were. */
  part: number | null;
  step: (by: number) => void;
}

/** Return the search. `setFollow(false)` stops following, since a match moves the log. */
export function useFinding(
  { blocks, chars }: Shown,
  wanted: Wanted,
  box: RefObject<HTMLElement>,
  setFollow: (follow: boolean) => void
): Finding {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const sought = useDeferredValue(text);
  const search = useMemo(() => new Search(sought, wanted), [sought, wanted]);
  const total = useMemo(() => search.count(blocks), [search, blocks]);
  const number = total === 0 ? 0 : Math.min(at, total - 1);
  const match = useMemo(
    () => (total === 0 ? null : search.match(blocks, number)),
    [search, blocks, number, total]
  );
  const key = match?.key;
  const place = match?.at;
  useLayoutEffect(() => {
    if (key !== undefined) {
      setFollow(false);
      box.current?.querySelector('mark[aria-current]')?.scrollIntoView({ block: 'center' });
    }
  }, [key, place, search, box, setFollow]);
  return {
    text,
    setText: wish => {
      setText(wish);
      setAt(0);
    },
    search,
    total,
    number,
    match,
    part: blocks.some(block => block.kind === 'gap') ? chars : null,
    step: by => {
      if (total > 0) {
        setAt((number + by + total) % total);
      }
    }
  };
}
