// Refreshing of a file browser only while it is visible, since each refresh runs a command on the
// login node.
import { Poll } from '@lumino/polling';
import type { Widget } from '@lumino/widgets';

export const REFRESH_MS = 60_000;

/** Call `look` at each interval until disposed. */
export function lookWhileSeen(widget: Widget, look: () => Promise<void>): Poll {
  return new Poll({
    factory: look,
    frequency: { interval: REFRESH_MS, backoff: false },
    linger: 0,
    standby: () => (widget.isVisible ? 'when-hidden' : true)
  });
}
