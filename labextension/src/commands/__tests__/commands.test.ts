import type { ISlurmModel } from '../../tokens';
import { SlurmError } from '../../server';
import type { Job } from '../../wire';
import { each, steer } from '../steering';
import { argsOf, stateOf, targetsOf, type Target } from '../targets';
import { belowRoot, jobsIn } from '../where';

type Asked = [string, Record<string, unknown> | undefined];

/** A model that notes what is asked of it; `jobs` are those it knows. */
function fakeModel(jobs: Partial<Job>[] = []): [ISlurmModel, Asked[]] {
  const asked: Asked[] = [];
  const answer = (name: string, args?: Record<string, unknown>): Promise<unknown> => {
    asked.push([name, args]);
    return Promise.resolve({ id: 'adopted', cluster: 'a' });
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

test('what is no job in the arguments is none', () => {
  expect(targetsOf({ id: 'x' })).toEqual([{ cluster: '', id: 'x', slurm_id: null }]);
  expect(targetsOf({})).toEqual([]);
  expect(targetsOf({ targets: [null, 3, 'x', {}, { cluster: 'a' }, { id: 4 }] })).toEqual([]);
  expect(targetsOf(argsOf([OURS, THEIRS]))).toEqual([OURS, THEIRS]);
});

test('a single job that only Slurm knows is adopted first', async () => {
  const [model, asked] = fakeModel();
  await steer(model, [THEIRS], 'hold');
  expect(asked).toEqual([
    ['adopt', { slurm_id: '8', cluster: 'a' }],
    ['hold', { job_id: 'adopted' }]
  ]);
});

test.each([
  ['12_3', '12_3'],
  ['12_[4-9%2]', '12_[4-9]']
])('of an array only %s is cancelled, not all of it', async (slurm_id, listed) => {
  const [model, asked] = fakeModel([{ id: 'whole', cluster: 'a' }]);
  await steer(model, [{ cluster: 'a', id: 'whole', slurm_id }], 'cancel');
  const ids = { job_ids: [], slurm_ids: [listed] };
  expect(asked).toEqual([['steer_many', { verb: 'cancel', cluster: 'a', ...ids }]]);
});

test.each(['cancel', 'hold', 'release', 'requeue'] as const)(
  'to %s many is one call for each cluster',
  async verb => {
    const [model, asked] = fakeModel([
      { id: 'ours', cluster: 'a' },
      { id: 'far', cluster: 'b' }
    ]);
    const far: Target = { cluster: '', id: 'far', slurm_id: '9' };
    const tasks: Target = { cluster: 'a', id: 'ours', slurm_id: '7_[4-9%2]' };
    await steer(model, [OURS, THEIRS, far, tasks], verb);
    const near = { cluster: 'a', job_ids: ['ours'], slurm_ids: ['8', '7_[4-9]'] };
    expect(asked).toEqual([
      ['steer_many', { verb, ...near }],
      ['steer_many', { verb, cluster: 'b', job_ids: ['far'], slurm_ids: [] }]
    ]);
  }
);

test('one that fails keeps nothing from the others, and all failures are counted', async () => {
  const done: number[] = [];
  const problem = {
    code: 'x',
    message: 'No.',
    hint: null,
    detail: null,
    option: null,
    transient: false
  };
  const failed = each([1, 2, 3], target => {
    done.push(target);
    return target === 2 ? Promise.resolve() : Promise.reject(new SlurmError(problem, 409));
  });
  await expect(failed).rejects.toThrow('2 of 3 failed. No.');
  expect(done).toEqual([1, 2, 3]);
});

test("a task's state is its own, not the array's", () => {
  const [model] = fakeModel([{ id: 'ours', state: 'RUNNING' }]);
  expect(stateOf(model, OURS)).toBe('RUNNING');
  expect(stateOf(model, { ...OURS, slurm_id: '7_1', state: 'PENDING' })).toBe('PENDING');
  expect(stateOf(model, { ...OURS, id: 'unknown' })).toBeNull();
});

test.each([
  ['/home/me/run/x.ipynb', '/home/me', 'run/x.ipynb'],
  ['/home/me/x.ipynb', '/home/me/', 'x.ipynb'],
  ['/home/me2/x.ipynb', '/home/me', null],
  ['/x.ipynb', '/', 'x.ipynb'],
  ['/home/me/x.ipynb', '', null],
  ['x.ipynb', '/home/me', null]
])('%s below %s is %s', (path, root, expected) => expect(belowRoot(path, root)).toBe(expected));

test('the cell of a job is the one whose output names it', () => {
  const bundle = (id: string): object => ({
    outputs: [
      { output_type: 'stream', text: 'x' },
      { data: { 'application/vnd.jupyter-slurm.job+json': { v: 1, id } } }
    ]
  });
  expect(jobsIn(bundle('abcdefgh'))).toEqual(['abcdefgh']);
  expect([null, 'x', {}, { outputs: [null] }].flatMap(jobsIn)).toEqual([]);
});
