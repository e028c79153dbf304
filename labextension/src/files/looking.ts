// When a browser of files looks again by itself: each look is a command on the cluster's login
// machine, so only while somebody sees what it finds.
import { Poll } from '@lumino/polling';
import type { Widget } from '@lumino/widgets';

export const REFRESH_MS = 60_000;

/** Until it is disposed of; `look` is not called at once. */
export function lookWhileSeen(widget: Widget, look: () => Promise<void>): Poll {
  return new Poll({
    factory: look,
    frequency: { interval: REFRESH_MS, backoff: false },
    linger: 0,
    standby: () => (widget.isVisible ? 'when-hidden' : true)
  });
}
