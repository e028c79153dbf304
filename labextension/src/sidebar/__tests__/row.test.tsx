import { act, type JSX } from 'react';
import { createRoot } from 'react-dom/client';
import { job, NOW_S } from '../../__tests__/fakes';
import type { Job } from '../../wire';
import { JobIndex } from '../job_index';
import { LineCell, lineSentence } from '../row';
import { linesOf, type Line } from '../tree';

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

const mockDrawn: string[] = [];
jest.mock('../../job/icons', () => ({
  // Each row that is drawn asks for its sign.
  stateIcon: (state: string): undefined => {
    mockDrawn.push(state);
    return undefined;
  }
}));

test('of a thousand rows one job’s change draws one', () => {
  const jobs = Array.from({ length: 1000 }, (_, at) => job({ id: `j${at}`, slurm_id: `${at}` }));
  const index = new JobIndex();
  const toggle = jest.fn();
  const List = ({ all }: { all: Job[] }): JSX.Element => {
    const { groups } = index.update(all, new Map(), new Map());
    const lines = linesOf(groups, () => true);
    return (
      <>
        {lines.map(line => (
          <LineCell
            key={line.key}
            {...{ line, nowS: NOW_S, isOld: false, several: false, toggle }}
          />
        ))}
      </>
    );
  };
  const root = createRoot(document.createElement('div'));
  const drawnOf = (all: Job[]): string[] => {
    mockDrawn.length = 0;
    act(() => root.render(<List all={all} />));
    return [...mockDrawn];
  };
  expect(drawnOf(jobs)).toHaveLength(1000);
  expect(drawnOf([...jobs])).toEqual([]);
  const news = job({ id: 'j7', slurm_id: '7', state: 'COMPLETING' });
  const changed = jobs.map(one => (one.id === news.id ? news : one));
  expect(drawnOf(changed)).toEqual(['COMPLETING']);
});

test('a row says of which cluster it is where the jobs are of several', () => {
  const { groups } = new JobIndex().update([job({ cluster: 'arandu' })], new Map(), new Map());
  const line = linesOf(groups, () => true).find(one => one.kind === 'job') as Line;
  const node = document.createElement('div');
  const root = createRoot(node);
  for (const several of [false, true]) {
    act(() =>
      root.render(<LineCell {...{ line, nowS: NOW_S, isOld: false, several, toggle: jest.fn() }} />)
    );
    expect(node.textContent?.includes('arandu')).toBe(several);
    expect(lineSentence(line, NOW_S, several).endsWith(', arandu')).toBe(several);
  }
});
