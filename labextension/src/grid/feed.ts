// Hooks that open a feed while a panel is visible. They do not depend on any view.
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { useEffect, useRef, useState } from 'react';
import type { Freshness, Resting } from '../tokens';
import { useSeen } from '../watching';

interface Watched<V> extends IDisposable {
  readonly freshness: Freshness;
  readonly changed: ISignal<V, void>;
}

/** A feed, which changes in place. Each change creates a new object around the feed. */
export interface Followed<V> {
  readonly view: V | null;
}

/**
 * Return the feed of `open` while the view is visible. Keep the last feed until the next one has
 * data.
 */
export function useFeed<V extends Watched<V>>(open: (() => V) | null): Followed<V> {
  const seen = useSeen();
  const [followed, setFollowed] = useState<Followed<V>>({ view: null });
  useEffect(() => {
    if (open === null || !seen) {
      return undefined;
    }
    const opened = open();
    const { asOf, problem } = opened.freshness;
    setFollowed(before =>
      before.view === null || asOf !== null || problem !== null ? { view: opened } : before
    );
    const take = (): void => setFollowed({ view: opened });
    opened.changed.connect(take);
    return () => {
      opened.changed.disconnect(take);
      opened.dispose();
    };
  }, [open, seen]);
  return followed;
}

/**
 * Follow the feed of `open` until `open` changes. The feed rests while the view is hidden, and then
 * resumes.
 */
export function useResting(open: () => Resting): void {
  const seen = useSeen();
  const opened = useRef<Resting | null>(null);
  useEffect(() => {
    const view = open();
    opened.current = view;
    return () => view.dispose();
  }, [open]);
  useEffect(() => {
    if (seen) {
      opened.current?.wake();
    } else {
      opened.current?.rest();
    }
  }, [open, seen]);
}
