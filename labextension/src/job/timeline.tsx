// What has happened to a job: a picture of how long it waited, ran and ended, and below it each event
// with why, to the second.
import { useMemo, type JSX } from 'react';
import { useClock } from '../clock';
import { exactly } from '../exactly';
import { duration, isFinal, momentWithSeconds, stateWord, tone, visible } from '../format';
import { Marked } from '../marked';
import { StateWord } from '../parts';
import { trans } from '../translation';
import type { JobDetails } from '../wire';
import { BRIEF_S, stretchesOf, sumsOf, type Stretch } from './stretches';

interface Props {
  details: JobDetails;
}

export function TimelinePane({ details: { events } }: Props): JSX.Element {
  const last = events.at(-1);
  const nowS = useClock(last === undefined || isFinal(last.state) ? null : last.time_s);
  const stretches = stretchesOf(events, nowS);
  return (
    <section aria-label={trans.__('What happened')}>
      {last === undefined ? (
        <p className="jp-slurm-Empty">{trans.__('Nothing that was seen from here.')}</p>
      ) : (
        <Picture stretches={stretches} nowS={nowS} />
      )}
      <ol className="jp-slurm-Events">
        {stretches.map(({ event, lastsS }, at) => (
          <li key={at} data-tone={tone(event.state)}>
            <time
              dateTime={new Date(event.time_s * 1000).toISOString()}
              title={exactly(event.time_s)}
            >
              {momentWithSeconds(event.time_s, nowS)}
            </time>
            <StateWord state={event.state} />
            <span>
              <Marked text={visible(event.text ?? '')} />{' '}
              <span className="jp-slurm-Quiet">{lastsS < BRIEF_S ? '' : duration(lastsS)}</span>
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}

interface PictureProps {
  stretches: readonly Stretch[];
  nowS: number;
}

/** Each stretch as wide as it was long. */
function Picture({ stretches, nowS }: PictureProps): JSX.Element {
  const sums = useMemo(() => sumsOf(stretches), [stretches]);
  const first = stretches[0]?.event.time_s ?? nowS;
  const last = stretches.at(-1)?.event;
  const end = last !== undefined && isFinal(last.state) ? last : null;
  const words = ([state, seconds]: [string, number]): string =>
    `${stateWord(state)} ${duration(seconds)}`;
  const told = [...sums.map(words), ...(end === null ? [] : [stateWord(end.state)])];
  return (
    <div className="jp-slurm-Timeline">
      <div className="jp-slurm-TimelineBar" role="img" aria-label={told.join(', ')}>
        {stretches
          .filter(({ lastsS }) => lastsS > 0)
          .map(({ event, lastsS }, at) => (
            <span
              key={at}
              data-tone={tone(event.state)}
              style={{ flexGrow: lastsS }}
              title={`${words([event.state, lastsS])} ${visible(event.text ?? '')}`}
            />
          ))}
      </div>
      <div className="jp-slurm-ChartSpan jp-slurm-Quiet">
        <span>{momentWithSeconds(first, nowS)}</span>
        <span>{end === null ? trans.__('now') : momentWithSeconds(end.time_s, nowS)}</span>
      </div>
      <ul>
        {sums.map(([state, seconds]) => (
          <li key={state}>
            <StateWord state={state} /> {duration(seconds)}
          </li>
        ))}
        {end === null ? null : (
          <li>
            <StateWord state={end.state} />
          </li>
        )}
      </ul>
    </div>
  );
}
