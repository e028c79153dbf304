// What a scrolled box of a log needs to know of itself: whether it is to stay at its end, and which
// of its blocks are near what is seen. Hooks on DOM elements; nothing of what a log is.
import { useCallback, useEffect, useRef, useState, type RefObject } from 'react';
import type { Nearness } from './blocks';

/** So close to the end is at the end, in pixels. */
const AT_END = 8;
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
  const setFollow = useCallback(
    (wanted: boolean) => {
      following.current = wanted;
      setShown(wanted);
      if (wanted) {
        toEnd(box.current);
      }
    },
    [box]
  );
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      if (following.current) {
        toEnd(box.current);
      }
    });
    for (const element of [box.current, content.current]) {
      if (element !== null) {
        observer.observe(element);
      }
    }
    return () => {
      observer.disconnect();
    };
  }, [box, content]);
  const scrolled = useCallback(() => {
    const element = box.current;
    if (element === null) {
      return;
    }
    const most = element.scrollHeight - element.clientHeight;
    const { scrollTop: top } = element;
    // What gets shorter scrolls up, too; a person does so in what is as long as before.
    const byHand = top < last.current.top && most >= last.current.most;
    last.current = { top, most };
    if (most - top <= AT_END) {
      following.current = true;
    } else if (byHand) {
      following.current = false;
    } else if (following.current) {
      toEnd(element);
    }
    setShown(following.current);
  }, [box]);
  return { follow, setFollow, scrolled };
}

function toEnd(element: HTMLElement | null): void {
  if (element !== null) {
    element.scrollTop = element.scrollHeight;
  }
}

/** Tells the blocks in `box` when they come near what is seen of it. */
export function useNearness(box: RefObject<HTMLElement>): Nearness {
  const [nearness] = useState(() => new Watched(box));
  useEffect(
    () => () => {
      nearness.close();
    },
    [nearness]
  );
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
