// What a panel needs to show what is watched: the view while the panel is seen, and the time of day.
// Knows no view by name.
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { useEffect, useState } from 'react';
import type { Freshness } from '../tokens';

interface Watched<V> extends IDisposable {
  readonly freshness: Freshness;
  readonly changed: ISignal<V, void>;
}

/** A view, which changes in place: another object with every change of it. */
export interface Followed<V> {
  readonly view: V | null;
}

/**
 * What `open` gives while there is an `open`. What was shown before stands until there is something
 * newer.
 */
export function useFeed<V extends Watched<V>>(open: (() => V) | null): Followed<V> {
  const [followed, setFollowed] = useState<Followed<V>>({ view: null });
  useEffect(() => {
    if (open === null) {
      return undefined;
    }
    const opened = open();
    const { asOf, problem } = opened.freshness;
    setFollowed(before =>
      before.view === null || asOf !== null || problem !== null ? { view: opened } : before
    );
    const take = (): void => {
      setFollowed({ view: opened });
    };
    opened.changed.connect(take);
    return () => {
      opened.changed.disconnect(take);
      opened.dispose();
    };
  }, [open]);
  return followed;
}

const TICK_MS = 1000;

/** UTC epoch seconds, while `seen`. */
export function useNow(seen: boolean): number {
  const [nowS, setNowS] = useState(() => Date.now() / 1000);
  useEffect(() => {
    if (!seen) {
      return undefined;
    }
    const timer = window.setInterval(() => {
      setNowS(Date.now() / 1000);
    }, TICK_MS);
    return () => {
      window.clearInterval(timer);
    };
  }, [seen]);
  return nowS;
}
