// How somebody looks at nodes, as it is remembered from one day to the next. Pure.
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { remembered, saved, usual, type Arrangement } from '../grid/columns';
import { columnsOf } from './columns';

export interface Look {
  arrangement: Arrangement;
  as: 'picture' | 'table';
}

export function usualLook(): Look {
  const arrangement = usual(columnsOf(), { column: 'node', down: false });
  return { arrangement, as: 'picture' };
}

export function rememberedLook(value: unknown): Look {
  const otherwise = usualLook();
  const { arrangement, as } = (value ?? {}) as Partial<Look>;
  return {
    arrangement: remembered(arrangement, otherwise.arrangement),
    as: as === 'table' ? 'table' : otherwise.as
  };
}

export function savedLook({ arrangement, as }: Look): ReadonlyPartialJSONObject {
  return { arrangement: saved(arrangement), as };
}
