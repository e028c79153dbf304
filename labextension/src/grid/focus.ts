// What keeps the focus in a list whose rows come and go.
import { useLayoutEffect, type RefObject } from 'react';

/**
 * A row that is removed takes the focus with it, and the keys that come after it are lost: it goes on
 * in the `list`, to whom `next` says.
 */
export function useKeptFocus(
  list: RefObject<HTMLElement>,
  next: (had: HTMLElement) => HTMLElement | null | undefined
): void {
  const had = list.current?.querySelector<HTMLElement>(':focus') ?? null;
  useLayoutEffect(() => {
    if (had !== null && document.activeElement === document.body) {
      next(had)?.focus({ preventScroll: true });
    }
  });
}
