// How somebody looks at nodes, as it is remembered from one day to the next. Pure.
import { remembered, usual, type Arrangement } from '../grid/columns';
import { columnsOf } from './columns';

export type Look = Readonly<{
  arrangement: Arrangement;
  as: 'picture' | 'table';
}>;

export function usualLook(): Look {
  const arrangement = usual(columnsOf(), { column: 'node', down: false });
  return { arrangement, as: 'picture' };
}

export function lookOf(value: unknown): Look {
  const otherwise = usualLook();
  const { arrangement, as } = (value ?? {}) as Partial<Look>;
  return {
    arrangement: remembered(arrangement, otherwise.arrangement),
    as: as === 'table' ? 'table' : otherwise.as
  };
}
