// How new what is shown is, or why nothing newer is known.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { JSX } from 'react';
import { told } from '../messages';
import type { Freshness } from '../tokens';

interface Props {
  freshness: Freshness | undefined;
  trans: TranslationBundle;
}

export function FreshnessLine({ freshness, trans }: Props): JSX.Element {
  const { asOf, problem } = freshness ?? { asOf: null, problem: null };
  const at = asOf === null ? null : new Date(asOf * 1000);
  const when = at === null ? '' : trans.__('as of %1', at.toLocaleTimeString());
  if (problem === null) {
    return (
      <span className="jp-slurm-Quiet jp-slurm-Fresh" title={at?.toLocaleString()}>
        {when === '' ? trans.__('Looking…') : when}
      </span>
    );
  }
  const why = told(problem, trans);
  return (
    <span className="jp-slurm-Problem" role="status" title={problem.detail ?? undefined}>
      {when === '' ? why : `${when}: ${why}`}
    </span>
  );
}
