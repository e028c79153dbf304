// The timeline of a job: each event with its time, state, reason and duration.
import type { JSX } from 'react';
import { useClock } from '../clock';
import { exactly } from '../exactly';
import { duration, isFinal, momentWithSeconds, tone, visible } from '../format';
import { Marked } from '../marked';
import { StateWord } from '../parts';
import { trans } from '../translation';
import type { JobDetails } from '../wire';

/** States shorter than this show no duration. */
const BRIEF_S = 1;

interface Props {
  details: JobDetails;
}

export function TimelinePane({ details: { events } }: Props): JSX.Element {
  const last = events.at(-1);
  const nowS = useClock(last === undefined || isFinal(last.state) ? null : last.time_s);
  return (
    <section aria-label={trans.__('Timeline')}>
      {last === undefined ? (
        <p className="jp-slurm-Empty">{trans.__('No events recorded.')}</p>
      ) : null}
      <ol className="jp-slurm-Events">
        {events.map(({ state, text, time_s: timeS }, at) => {
          const lastsS = (events[at + 1]?.time_s ?? (isFinal(state) ? timeS : nowS)) - timeS;
          return (
            <li key={at} data-tone={tone(state)}>
              <time dateTime={new Date(timeS * 1000).toISOString()} title={exactly(timeS)}>
                {momentWithSeconds(timeS, nowS)}
              </time>
              <StateWord state={state} />
              <span>
                <Marked text={visible(text ?? '')} />{' '}
                <span className="jp-slurm-Quiet">{lastsS < BRIEF_S ? '' : duration(lastsS)}</span>
              </span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
