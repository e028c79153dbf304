// The search in a log as a hook: what is looked for, and the match that somebody is at, brought into
// sight. How it is found is search.ts's.
import { useDeferredValue, useLayoutEffect, useMemo, useState, type RefObject } from 'react';
import type { Shown, Wanted } from './output';
import { Search } from './search';

/** The search in a log, and at which of its matches somebody is. */
export interface Finding {
  text: string;
  setText: (text: string) => void;
  search: Search;
  total: number;
  /** Counted from 0. */
  number: number;
  match: { key: number; at: number } | null;
  /** How many characters are looked through, where these are not all there are; else null. */
  part: number | null;
  step: (by: number) => void;
}

/** `setFollow`: who looks at a match does not follow the end. */
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
