// How new what is shown is, or why nothing newer is known.
import type { JSX } from 'react';
import { exactly } from '../exactly';
import { momentWithSeconds } from '../format';
import { told } from '../messages';
import type { Freshness } from '../tokens';
import { trans } from '../translation';

interface Props {
  freshness: Freshness | undefined;
}

export function FreshnessLine({ freshness }: Props): JSX.Element {
  const { asOf, problem } = freshness ?? { asOf: null, problem: null };
  const nowS = Date.now() / 1000;
  const when = asOf === null ? '' : trans.__('as of %1', momentWithSeconds(asOf, nowS));
  if (problem === null) {
    return (
      <span className="jp-slurm-Quiet jp-slurm-Fresh" title={asOf === null ? '' : exactly(asOf)}>
        {when === '' ? trans.__('Looking…') : when}
      </span>
    );
  }
  const why = told(problem);
  return (
    <span className="jp-slurm-Problem" role="status" title={problem.detail ?? undefined}>
      {when === '' ? why : `${when}: ${why}`}
    </span>
  );
}
