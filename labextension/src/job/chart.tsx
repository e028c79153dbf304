// A chart of one quantity over time, compared with the job's request, as SVG.
import { useState, type JSX, type PointerEvent } from 'react';
import type { Point } from './samples';

interface Props {
  title: string;
  /** The points, the oldest first. */
  points: readonly Point[];
  /** The amount that the job requested; null if it requested none. */
  limit: number | null;
  format: (value: number) => string;
  time: (timeS: number) => string;
  /** Text for screen readers. */
  summary: string;
}

const WIDTH = 320;
const HEIGHT = 80;
const TOP = 4;

export function Chart({ title, points, limit, format, time, summary }: Props): JSX.Element {
  const [at, setAt] = useState<number | null>(null);
  const most = Math.max(limit ?? 0, ...points.map(([, value]) => value ?? 0), Number.EPSILON);
  const first = points[0]?.[0] ?? 0;
  const last = points.at(-1)?.[0] ?? first;
  const x = (timeS: number): number => ((timeS - first) / Math.max(1, last - first)) * WIDTH;
  const y = (value: number): number => HEIGHT - (value / most) * (HEIGHT - TOP);
  const lines = stretches(points).map(part =>
    part.map(([timeS, value]) => `${x(timeS).toFixed(1)},${y(value).toFixed(1)}`)
  );
  const [shownS, shown] = (at === null ? undefined : points[at]) ?? points.at(-1) ?? [0, null];
  const move = (event: PointerEvent<SVGSVGElement>): void => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    setAt(nearest(points, first + ((event.clientX - left) / width) * (last - first)));
  };
  return (
    <figure className="jp-slurm-Chart">
      <figcaption>
        <span>{title}</span> <strong>{shown === null ? '–' : format(shown)}</strong>
        <span className="jp-slurm-Quiet">{limit === null ? '' : ` / ${format(limit)}`}</span>
        <span className="jp-slurm-ChartTime jp-slurm-Quiet">{at === null ? '' : time(shownS)}</span>
      </figcaption>
      <div className="jp-slurm-ChartBox">
        <div className="jp-slurm-ChartAxis jp-slurm-Quiet" aria-hidden="true">
          <span>{format(most)}</span>
          <span>{format(most / 2)}</span>
          <span>{format(0)}</span>
        </div>
        <svg
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={summary}
          onPointerMove={move}
          onPointerLeave={() => setAt(null)}
        >
          {lines.map((line, key) => (
            <g key={key}>
              <polygon className="jp-slurm-ChartArea" points={area(line)} />
              <polyline className="jp-slurm-ChartLine" points={line.join(' ')} />
            </g>
          ))}
          {limit === null ? null : (
            <line className="jp-slurm-ChartLimit" x1={0} x2={WIDTH} y1={y(limit)} y2={y(limit)} />
          )}
          {at === null ? null : (
            <line className="jp-slurm-ChartAt" x1={x(shownS)} x2={x(shownS)} y1={0} y2={HEIGHT} />
          )}
        </svg>
      </div>
      <div className="jp-slurm-ChartSpan jp-slurm-Quiet" aria-hidden="true">
        <span>{time(first)}</span>
        <span>{time(last)}</span>
      </div>
    </figure>
  );
}

/** Return the stretches between moments without a value. */
function stretches(points: readonly Point[]): [number, number][][] {
  const parts: [number, number][][] = [[]];
  for (const [timeS, value] of points) {
    if (value === null) {
      parts.push([]);
    } else {
      parts.at(-1)?.push([timeS, value]);
    }
  }
  return parts.filter(part => part.length > 0);
}

function area(line: readonly string[]): string {
  const end = (point: string | undefined): string => `${point?.split(',')[0] ?? 0},${HEIGHT}`;
  return [end(line[0]), ...line, end(line.at(-1))].join(' ');
}

function nearest(points: readonly Point[], timeS: number): number | null {
  let found: number | null = null;
  let least = Infinity;
  points.forEach(([at], index) => {
    if (Math.abs(at - timeS) < least) {
      least = Math.abs(at - timeS);
      found = index;
    }
  });
  return found;
}
