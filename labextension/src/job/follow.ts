// Hooks of a scrolled box. It follows its end, and reports to its blocks when they are nearly
// visible.
import { useCallback, useEffect, useRef, useState, type RefObject } from 'react';
import type { Nearness } from './blocks';

/** Distance from the end, in pixels, that counts as the end. */
const AT_END = 8;
/** Time after an input in which a scroll counts as its effect, since a busy browser is slow. */
const HAND_MS = 2_000;
/** A press that moves by fewer pixels is a click. */
const CLICK = 4;
/** The mouse button that scrolls. */
const MIDDLE_BUTTON = 1;
const KEYS_UP = new Set(['ArrowUp', 'PageUp', 'Home', ' ']);
/** Blocks this close are drawn before they are visible. */
const MARGIN = '800px 0px';

interface Following {
  follow: boolean;
  setFollow: (follow: boolean) => void;
  scrolled: () => void;
}

/** Keep `box` at its end until the user scrolls up. */
export function useFollowing(
  box: RefObject<HTMLElement>,
  content: RefObject<HTMLElement>
): Following {
  const [follow, setShown] = useState(true);
  const following = useRef(true);
  const last = useRef({ top: 0, most: 0 });
  const hand = useHand(box);
  const toEnd = useCallback(() => {
    const element = box.current;
    if (element !== null) {
      element.scrollTop = element.scrollHeight;
      // The event of this scroll comes later, and the user may scroll up before that event.
      last.current = placeOf(element);
    }
  }, [box]);
  const later = useRef(0);
  // Do not follow while the user scrolls up, since this would stop their scrolling.
  const keepToEnd = useCallback(() => {
    window.clearTimeout(later.current);
    if (hand.current?.isAtWork() ?? false) {
      later.current = window.setTimeout(keepToEnd, HAND_MS);
    } else if (following.current) {
      toEnd();
    }
  }, [hand, toEnd]);
  const setFollow = useCallback(
    (wanted: boolean) => {
      following.current = wanted;
      setShown(wanted);
      if (wanted) {
        hand.current?.rest();
        toEnd();
      }
    },
    [hand, toEnd]
  );
  useEffect(() => {
    const observer = new ResizeObserver(keepToEnd);
    for (const element of [box.current, content.current]) {
      if (element !== null) {
        observer.observe(element);
      }
    }
    return () => {
      observer.disconnect();
      window.clearTimeout(later.current);
    };
  }, [box, content, keepToEnd]);
  const scrolled = useCallback(() => {
    const element = box.current;
    if (element === null) {
      return;
    }
    const before = last.current;
    const { top, most } = placeOf(element);
    last.current = { top, most };
    // Content that gets shorter also scrolls up.
    if (top < before.top && (hand.current?.isAtWork() ?? false)) {
      following.current = false;
    } else if (most - top <= AT_END) {
      following.current = true;
    } else {
      keepToEnd();
    }
    setShown(following.current);
  }, [box, hand, keepToEnd]);
  return { follow, setFollow, scrolled };
}

/** Return whether the user may be scrolling a box up now, by wheel, key, touch or pointer. */
interface Hand {
  isAtWork: () => boolean;
  /** Ignore earlier input of the user. */
  rest: () => void;
}

function handOn(box: HTMLElement, signal: AbortSignal): Hand {
  let last = -Infinity;
  let pressed: { x: number; y: number } | null = null;
  let holds = false;
  const moves = (): void => {
    last = performance.now();
  };
  const release = (): void => {
    pressed = null;
    if (holds) {
      holds = false;
      moves();
    }
  };
  const passive = { passive: true, signal };
  box.addEventListener(
    'wheel',
    ({ deltaY, ctrlKey }) => {
      if (deltaY < 0 && !ctrlKey) {
        moves();
      }
    },
    passive
  );
  box.addEventListener('touchmove', moves, passive);
  box.addEventListener(
    'keydown',
    ({ key }) => {
      if (KEYS_UP.has(key)) {
        moves();
      }
    },
    passive
  );
  box.addEventListener(
    'pointerdown',
    ({ clientX: x, clientY: y, button, target }) => {
      pressed = { x, y };
      // The scrollbar is on the left in languages that are written from right to left.
      const at = x - box.getBoundingClientRect().left - box.clientLeft;
      const isOnScrollbar = target === box && (at < 0 || at >= box.clientWidth);
      holds = button === MIDDLE_BUTTON || isOnScrollbar;
    },
    passive
  );
  // Browsers also report a resting pointer when other content has moved under it.
  window.addEventListener(
    'pointermove',
    ({ buttons, clientX, clientY }) => {
      if (buttons === 0) {
        pressed = null;
        holds = false;
      } else if (pressed !== null) {
        holds ||= Math.hypot(clientX - pressed.x, clientY - pressed.y) > CLICK;
      }
    },
    passive
  );
  window.addEventListener('pointerup', release, passive);
  window.addEventListener('pointercancel', release, passive);
  return {
    isAtWork: () => holds || performance.now() - last < HAND_MS,
    rest: () => {
      last = -Infinity;
    }
  };
}

function useHand(box: RefObject<HTMLElement>): RefObject<Hand> {
  const hand = useRef<Hand | null>(null);
  useEffect(() => {
    if (box.current === null) {
      return undefined;
    }
    const end = new AbortController();
    hand.current = handOn(box.current, end.signal);
    return () => end.abort();
  }, [box]);
  return hand;
}

/** Return the position of a box, and its maximum. */
function placeOf(element: HTMLElement): { top: number; most: number } {
  return { top: element.scrollTop, most: element.scrollHeight - element.clientHeight };
}

/** Report to the blocks of `box` when they are nearly visible. */
export function useNearness(box: RefObject<HTMLElement>): Nearness {
  const [nearness] = useState(() => new Watched(box));
  useEffect(() => () => nearness.close(), [nearness]);
  return nearness;
}

class Watched implements Nearness {
  private readonly hears = new Map<Element, (near: boolean) => void>();
  private observer: IntersectionObserver | null = null;

  constructor(private readonly box: RefObject<HTMLElement>) {}

  watch(element: Element, hear: (near: boolean) => void): () => void {
    this.observer ??= new IntersectionObserver(
      entries => {
        for (const { target, isIntersecting } of entries) {
          this.hears.get(target)?.(isIntersecting);
        }
      },
      { root: this.box.current, rootMargin: MARGIN }
    );
    this.hears.set(element, hear);
    this.observer.observe(element);
    return () => {
      this.hears.delete(element);
      this.observer?.unobserve(element);
    };
  }

  close(): void {
    this.observer?.disconnect();
    this.observer = null;
  }
}
