// The keys of the list of jobs: from row to row through all groups, and what is done there.
import type { KeyboardEvent } from 'react';

export interface KeyActions {
  choose: (key: string) => void;
  chooseNone: () => void;
  cancel: (key: string) => void;
  /** An array's tasks. */
  open: (key: string, wanted: boolean) => void;
  filter: () => void;
}

/** Keys count where a row has the focus; the buttons beside it have their own. */
export function onKey(event: KeyboardEvent<HTMLElement>, actions: KeyActions): void {
  const row = (event.target as HTMLElement).closest<HTMLElement>('.jp-slurm-RowMain');
  const key = row?.dataset.key;
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  if (event.key === '/') {
    actions.filter();
  } else if (event.key === 'Escape') {
    actions.chooseNone();
  } else if (row === null || key === undefined || !act(event, row, key, actions)) {
    return;
  }
  event.preventDefault();
}

function act(
  event: KeyboardEvent<HTMLElement>,
  row: HTMLElement,
  key: string,
  actions: KeyActions
): boolean {
  switch (event.key) {
    case ' ':
      actions.choose(key);
      return true;
    case 'Delete':
      actions.cancel(key);
      return true;
    case 'ArrowRight':
    case 'ArrowLeft':
      actions.open(key, event.key === 'ArrowRight');
      return true;
    default:
      return move(event, row);
  }
}

function move(event: KeyboardEvent<HTMLElement>, row: HTMLElement): boolean {
  const rows = [...event.currentTarget.querySelectorAll<HTMLElement>('.jp-slurm-RowMain')];
  const at = rows.indexOf(row);
  const goals: Record<string, number> = {
    ArrowDown: Math.min(rows.length - 1, at + 1),
    ArrowUp: Math.max(0, at - 1),
    Home: 0,
    End: rows.length - 1
  };
  const goal = goals[event.key];
  if (goal === undefined) {
    return false;
  }
  rows[goal]?.focus();
  return true;
}

/** A button is pressed when Space is let go: not where it chooses a row. */
export function onKeyUp(event: KeyboardEvent<HTMLElement>): void {
  if (event.key === ' ' && (event.target as HTMLElement).closest('.jp-slurm-RowMain') !== null) {
    event.preventDefault();
  }
}
