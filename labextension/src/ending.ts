// Loads what warns of the end of jobs of a kind (warnings.ts) with the first such job.
import { onceThereIs } from './later';
import type { ISlurmModel } from './tokens';
import type { Ending } from './warnings';

/** `channel`: its name, by which the tabs of a browser agree on which one warns. */
export function warnOfEnds(model: ISlurmModel, ending: Ending, channel: string): void {
  onceThereIs(model, ending.is, async () => {
    const { Warnings } = await import('./warnings');
    const tabs = 'BroadcastChannel' in window ? new BroadcastChannel(channel) : null;
    new Warnings(model, ending, tabs);
  });
}
