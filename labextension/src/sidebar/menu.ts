// What can be done to a job of the sidebar: as buttons while it is chosen, and in its context menu.
import { isFinal, isWaiting } from '../format';
import { isKernel } from '../kernels/words';
import { isLab } from '../labs/words';
import { CommandIDs } from '../tokens';
import type { JobRow } from './rows';

/** In the order of their buttons, whatever is chosen. */
export const ACTIONS: readonly string[] = [
  CommandIDs.openLab,
  CommandIDs.copyLabLink,
  CommandIDs.goToCell,
  CommandIDs.copyId,
  CommandIDs.hold,
  CommandIDs.release,
  CommandIDs.forget,
  CommandIDs.cancel
];

/** The few that one wants most, while it is looked at. */
export function actionsOf(row: JobRow): string[] {
  if (isFinal(row.state)) {
    return [CommandIDs.copyId, ...(row.job === null ? [] : [CommandIDs.forget])];
  }
  const steer = isWaiting(row.state) ? [row.held ? CommandIDs.release : CommandIDs.hold] : [];
  if (isLab(row.job)) {
    return [CommandIDs.openLab, CommandIDs.copyLabLink, ...steer, CommandIDs.cancel];
  }
  const first = isKernel(row.job) ? CommandIDs.goToCell : CommandIDs.copyId;
  return [first, ...steer, CommandIDs.cancel];
}

/** What its menu offers between opening and cancelling it. */
export function steeringOf(row: JobRow): string[] {
  return [row.held ? CommandIDs.release : CommandIDs.hold, CommandIDs.requeue, CommandIDs.extend];
}
