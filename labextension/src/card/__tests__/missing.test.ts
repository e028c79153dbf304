import { job, type Fields } from '../../__tests__/fakes';
import type { Place } from '../../submit/place';
import { isMissing } from '../missing';

const OVER = { state: 'COMPLETED', started_s: 1 } as const;

interface Run {
  isDisposed: boolean;
}

function cell(source: string, run?: Run, executionCount: number | null = null): Place {
  const model = { type: 'code', executionCount, sharedModel: { getSource: () => source } };
  return { cell: { model, outputArea: { future: run } } } as unknown as Place;
}

function missing(source: string, fields: Fields = {}): boolean {
  return isMissing(job({ ...OVER, ...fields }), cell(source));
}

test.each([
  '%%slurm --gpus 1\nfit()',
  '%%sbatch\n#!/bin/sh\nhostname',
  '%slurm attach',
  '%slurm attach a2b4c6d7\n',
  '\n%slurm run --image demo'
])('output may be missing below %j', source => {
  expect(missing(source)).toBe(true);
});

test.each([
  'job = js.submit(fit)\njob',
  '%slurm attach a2b4c6d7\nprint(1)',
  '%slurm jobs',
  '%%slurm_options\nx'
])('output below %j is not replaced', source => {
  expect(missing(source)).toBe(false);
});

test.each<Fields>([
  { state: 'RUNNING' },
  { state: 'CANCELLED', started_s: null },
  { state: 'REJECTED' },
  { kind: 'kernel' },
  { kind: 'lab' }
])('output is not missing for a job with %j', fields => {
  expect(missing('%%slurm\n1', fields)).toBe(false);
});

test('output is not missing while the page runs the cell', () => {
  const under = (run: Run, count: number | null): boolean =>
    isMissing(job(OVER), cell('%%slurm\n1', run, count));
  expect(under({ isDisposed: false }, null)).toBe(false);
  expect(under({ isDisposed: false }, 3)).toBe(true);
  expect(under({ isDisposed: true }, null)).toBe(true);
});
