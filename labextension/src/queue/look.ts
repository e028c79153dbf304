// The saved view settings of queues. No I/O.
import { remembered, usual, type Arrangement } from '../grid/columns';
import { columnsOf } from './columns';

export type Look = Readonly<{
  arrangement: Arrangement;
  everyone: boolean;
}>;

export function usualLook(): Look {
  const arrangement = usual(columnsOf(), { column: 'state', down: false });
  return { arrangement, everyone: true };
}

export function lookOf(value: unknown): Look {
  const otherwise = usualLook();
  const { arrangement, everyone } = (value ?? {}) as Partial<Look>;
  return {
    arrangement: remembered(arrangement, otherwise.arrangement),
    everyone: everyone ?? otherwise.everyone
  };
}
