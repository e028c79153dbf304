// How somebody looks at nodes, as it is remembered from one day to the next. Pure.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { remembered, saved, usual, type Arrangement } from '../grid/columns';
import { columnsOf } from './columns';

export interface Look {
  arrangement: Arrangement;
  as: 'picture' | 'table';
}

export function usualLook(trans: TranslationBundle): Look {
  const arrangement = usual(columnsOf(trans), { column: 'node', down: false });
  return { arrangement, as: 'picture' };
}

export function rememberedLook(value: unknown, trans: TranslationBundle): Look {
  const otherwise = usualLook(trans);
  const { arrangement, as } = (value ?? {}) as Partial<Look>;
  return {
    arrangement: remembered(arrangement, otherwise.arrangement),
    as: as === 'table' ? 'table' : otherwise.as
  };
}

export function savedLook({ arrangement, as }: Look): ReadonlyPartialJSONObject {
  return { arrangement: saved(arrangement), as };
}
