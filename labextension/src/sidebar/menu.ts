// Actions on a job of the sidebar: its buttons while it is selected, and its context menu.
import { isFinal, isHeld, isWaiting } from '../format';
import { isKernel } from '../kernels/words';
import { isLab } from '../labs/words';
import { CommandIDs } from '../tokens';
import type { Row } from '../wire';

/** The actions, in the order of their buttons. */
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

/** The most useful actions, as buttons. */
export function actionsOf(row: Row): string[] {
  if (isFinal(row.state)) {
    return [CommandIDs.copyId, ...(row.kind === 'listed' ? [] : [CommandIDs.forget])];
  }
  const steer = isWaiting(row.state) ? [holdOrRelease(row)] : [];
  if (isLab(row)) {
    return [CommandIDs.openLab, CommandIDs.copyLabLink, ...steer, CommandIDs.cancel];
  }
  const first = isKernel(row) ? CommandIDs.goToCell : CommandIDs.copyId;
  return [first, ...steer, CommandIDs.cancel];
}

/** The menu's commands between *Open* and *Cancel*. */
export function steeringOf(row: Row): string[] {
  return [holdOrRelease(row), CommandIDs.requeue, CommandIDs.extend];
}

function holdOrRelease({ state, reason }: Row): string {
  return isHeld(state, reason) ? CommandIDs.release : CommandIDs.hold;
}
