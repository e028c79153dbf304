// Loading of the warnings about ending jobs (warnings.ts) when the first such job starts.
import { onceThereIs } from './later';
import type { ISlurmModel } from './tokens';
import type { Ending } from './warnings';

/** `channel` is the name of the channel on which the browser's tabs agree which tab warns. */
export function warnOfEnds(model: ISlurmModel, ending: Ending, channel: string): void {
  onceThereIs(model, ending.is, async () => {
    const { Warnings } = await import('./warnings');
    const tabs = 'BroadcastChannel' in window ? new BroadcastChannel(channel) : null;
    new Warnings(model, ending, tabs);
  });
}
