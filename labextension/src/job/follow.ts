// What a scrolled box of a log needs to know of itself: whether it is to stay at its end, and which
// of its blocks are near what is seen. Hooks on DOM elements; nothing of what a log is.
import { useCallback, useEffect, useRef, useState, type RefObject } from 'react';
import type { Nearness } from './blocks';

/** So close to the end is at the end, in pixels. */
const AT_END = 8;
/** A scroll so long after what a person did comes of that: a browser takes its time to get there. */
const HAND_MS = 1_000;
/** And one that comes with so many next frames, however long a busy page takes for them. */
const HAND_FRAMES = 3;
/** Who moves what they press by no more than so many pixels has clicked, and scrolls nothing. */
const CLICK = 4;
/** Browsers scroll by what is done with it. */
const MIDDLE_BUTTON = 1;
const KEYS_UP = new Set(['ArrowUp', 'PageUp', 'Home', ' ']);
/** As near as this is drawn before it is seen. */
const MARGIN = '800px 0px';

interface Following {
  follow: boolean;
  setFollow: (follow: boolean) => void;
  scrolled: () => void;
}

/** `box` stays at its end, whatever its content does, until somebody scrolls up. */
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
      // Its event comes later: who scrolls up before that does so from here.
      last.current = placeOf(element);
    }
  }, [box]);
  const later = useRef(0);
  // Not while somebody may be scrolling up: a browser that is about to would be stopped by it.
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
    // What gets shorter, or is measured anew, scrolls up, too, and may be as long as before then.
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

/** Whether a person may be scrolling a box up: by wheel, key, finger, or whatever they hold. */
class Hand {
  private last = -Infinity;
  /** How many frames what it did may take yet. */
  private frames = 0;
  private holds = false;
  /** Where it has pressed; null: it does not press. */
  private pressed: { x: number; y: number } | null = null;
  private readonly ends = new AbortController();

  constructor(private readonly box: HTMLElement) {
    const { signal } = this.ends;
    const passive = { passive: true, signal };
    box.addEventListener('wheel', this.turns, passive);
    box.addEventListener('touchmove', this.moves, passive);
    box.addEventListener('keydown', this.presses, { signal });
    box.addEventListener('pointerdown', this.takes, passive);
    // A browser may keep for itself that a scrollbar was let go of.
    window.addEventListener('pointermove', this.drags, passive);
    window.addEventListener('pointerup', this.lets, passive);
    window.addEventListener('pointercancel', this.lets, passive);
  }

  isAtWork(): boolean {
    return this.holds || this.frames > 0 || performance.now() - this.last < HAND_MS;
  }

  /** What it did before is over. */
  rest(): void {
    this.last = -Infinity;
    this.frames = 0;
  }

  leave(): void {
    this.ends.abort();
  }

  private readonly turns = (event: WheelEvent): void => {
    if (event.deltaY < 0 && !event.ctrlKey) {
      this.moves();
    }
  };

  private readonly presses = (event: KeyboardEvent): void => {
    if (KEYS_UP.has(event.key)) {
      this.moves();
    }
  };

  private readonly moves = (): void => {
    this.last = performance.now();
    if (this.frames === 0) {
      requestAnimationFrame(this.passes);
    }
    this.frames = HAND_FRAMES;
  };

  private readonly passes = (): void => {
    this.frames = Math.max(0, this.frames - 1);
    if (this.frames > 0) {
      requestAnimationFrame(this.passes);
    }
  };

  private readonly takes = (event: PointerEvent): void => {
    this.pressed = { x: event.clientX, y: event.clientY };
    this.holds = event.button === MIDDLE_BUTTON || this.isOnScrollbar(event);
  };

  /** A browser also tells so of a pointer that rests, when something else has come below it. */
  private readonly drags = (event: PointerEvent): void => {
    if (event.buttons === 0) {
      this.pressed = null;
      this.holds = false;
    } else if (this.pressed !== null) {
      const { x, y } = this.pressed;
      this.holds ||= Math.hypot(event.clientX - x, event.clientY - y) > CLICK;
    }
  };

  private readonly lets = (): void => {
    this.pressed = null;
    if (this.holds) {
      this.holds = false;
      this.moves();
    }
  };

  /** On either side: in languages from right to left it may be at the left. */
  private isOnScrollbar(event: PointerEvent): boolean {
    const { box } = this;
    const at = event.clientX - box.getBoundingClientRect().left - box.clientLeft;
    return event.target === box && (at < 0 || at >= box.clientWidth);
  }
}

function useHand(box: RefObject<HTMLElement>): RefObject<Hand> {
  const hand = useRef<Hand | null>(null);
  useEffect(() => {
    if (box.current === null) {
      return undefined;
    }
    const one = new Hand(box.current);
    hand.current = one;
    return () => one.leave();
  }, [box]);
  return hand;
}

/** Where a box is, and how far it could be scrolled. */
function placeOf(element: HTMLElement): { top: number; most: number } {
  return { top: element.scrollTop, most: element.scrollHeight - element.clientHeight };
}

/** Tells the blocks in `box` when they come near what is seen of it. */
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
