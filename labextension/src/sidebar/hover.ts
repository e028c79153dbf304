// The row under the pointer or the focus, beside which a card opens after a moment.
import { useCallback, useEffect, useRef, useState, type RefObject } from 'react';

const MOMENT_MS = 500;

/** The row and its position. */
interface Pointed {
  key: string;
  box: DOMRect;
}

/**
 * Return the current row, and the listener for a list of rows. Typing or focus outside `list`
 * closes the card, even if the pointer rests on a row.
 */
export function usePointed(
  keyAt: (at: number) => string,
  list: RefObject<HTMLElement>
): {
  pointed: Pointed | null;
  over: (target: EventTarget | null) => void;
} {
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const timer = useRef(0);
  const last = useRef<Element | null>(null);
  const over = useCallback(
    (target: EventTarget | null) => {
      const row = target instanceof Element ? target.closest('[data-at]') : null;
      if (row === last.current) {
        return;
      }
      last.current = row;
      window.clearTimeout(timer.current);
      setPointed(null);
      if (row !== null) {
        const key = keyAt(Number(row.getAttribute('data-at')));
        timer.current = window.setTimeout(
          () => setPointed({ key, box: row.getBoundingClientRect() }),
          MOMENT_MS
        );
      }
    },
    [keyAt]
  );
  useEffect(() => {
    const close = ({ target }: Event): void => {
      if (!(target instanceof Node && list.current?.contains(target))) {
        window.clearTimeout(timer.current);
        setPointed(null);
      }
    };
    document.addEventListener('keydown', close, true);
    document.addEventListener('focusin', close, true);
    return () => {
      window.clearTimeout(timer.current);
      document.removeEventListener('keydown', close, true);
      document.removeEventListener('focusin', close, true);
    };
  }, [list]);
  return { pointed, over };
}
