// How somebody looks at queues, as it is remembered from one day to the next. Pure.
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { remembered, saved, usual, type Arrangement } from '../grid/columns';
import { columnsOf } from './columns';

export interface Look {
  arrangement: Arrangement;
  everyone: boolean;
}

export function usualLook(): Look {
  const arrangement = usual(columnsOf(), { column: 'state', down: false });
  return { arrangement, everyone: true };
}

export function rememberedLook(value: unknown): Look {
  const otherwise = usualLook();
  const { arrangement, everyone } = (value ?? {}) as Partial<Look>;
  return {
    arrangement: remembered(arrangement, otherwise.arrangement),
    everyone: everyone ?? otherwise.everyone
  };
}

export function savedLook({ arrangement, everyone }: Look): ReadonlyPartialJSONObject {
  return { arrangement: saved(arrangement), everyone };
}
