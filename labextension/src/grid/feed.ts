// What a panel needs to show what is watched: the view while the panel is seen. Knows no view by name.
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { useEffect, useRef, useState } from 'react';
import type { Freshness, Resting } from '../tokens';
import { useSeen } from '../watching';

interface Watched<V> extends IDisposable {
  readonly freshness: Freshness;
  readonly changed: ISignal<V, void>;
}

/** A view, which changes in place: another object with every change of it. */
export interface Followed<V> {
  readonly view: V | null;
}

/**
 * Returns what `open` gives while there is an `open` and somebody sees the view. The last answer stays
 * until there is a newer one.
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
 * Follows what `open` gives until `open` changes. It rests while nobody sees the view, and then goes on
 * from where it was.
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
