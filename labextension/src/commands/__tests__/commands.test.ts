import type { ISlurmModel } from '../../tokens';
import type { Job } from '../../wire';
import { outcome, steer } from '../steering';
import type { Target } from '../targets';

type Asked = [string, Record<string, unknown> | undefined];

/** A model that records requests. `jobs` are the jobs that it knows. */
function fakeModel(jobs: Partial<Job>[] = []): [ISlurmModel, Asked[]] {
  const asked: Asked[] = [];
  const answer = (name: string, args?: Record<string, unknown>): Promise<unknown> => {
    asked.push([name, args]);
    return Promise.resolve([]);
  };
  const model = {
    jobs: new Map(jobs.map(job => [job.id, job])),
    call: answer,
    callLoggedIn: (_: string, name: string, args?: Record<string, unknown>) => answer(name, args)
  };
  return [model as unknown as ISlurmModel, asked];
}

const OURS: Target = { cluster: 'a', id: 'ours', slurm_id: '7' };
const THEIRS: Target = { cluster: 'a', id: null, slurm_id: '8' };

test("a recorded job has its own call, and another user's job is named by Slurm's ID", async () => {
  const [model, asked] = fakeModel([{ id: 'ours', cluster: 'a' }]);
  await steer(model, [OURS], 'hold');
  await steer(model, [THEIRS], 'hold');
  expect(asked).toEqual([
    ['hold', { job_id: 'ours' }],
    ['control_jobs', { verb: 'hold', cluster: 'a', job_ids: [], slurm_ids: ['8'] }]
  ]);
});

test('the outcome counts the jobs and names those that were refused', () => {
  expect(outcome('cancel', 3, [])).toBe('3 jobs cancelled');
  const refusals = [{ job: '8', why: 'Access denied.' }];
  expect(outcome('hold', 3, refusals)).toBe(
    '2 jobs put on hold. 1 job was refused: 8. Access denied.'
  );
});

test.each([
  ['12_3', '12_3'],
  ['12_[4-9%2]', '12_[4-9]']
])('only %s of an array is cancelled', async (slurm_id, listed) => {
  const [model, asked] = fakeModel([{ id: 'whole', cluster: 'a' }]);
  await steer(model, [{ cluster: 'a', id: 'whole', slurm_id }], 'cancel');
  const ids = { job_ids: [], slurm_ids: [listed] };
  expect(asked).toEqual([['control_jobs', { verb: 'cancel', cluster: 'a', ...ids }]]);
});

test('an action on many jobs is one call for each cluster', async () => {
  const [model, asked] = fakeModel([
    { id: 'ours', cluster: 'a' },
    { id: 'far', cluster: 'b' }
  ]);
  const far: Target = { cluster: '', id: 'far', slurm_id: '9' };
  const tasks: Target = { cluster: 'a', id: 'ours', slurm_id: '7_[4-9%2]' };
  await steer(model, [OURS, THEIRS, far, tasks], 'hold');
  const near = { cluster: 'a', job_ids: ['ours'], slurm_ids: ['8', '7_[4-9]'] };
  expect(asked).toEqual([
    ['control_jobs', { verb: 'hold', ...near }],
    ['control_jobs', { verb: 'hold', cluster: 'b', job_ids: ['far'], slurm_ids: [] }]
  ]);
});
