import type { ISlurmModel } from '../../tokens';
import { SlurmError } from '../../server';
import type { Job } from '../../wire';
import { each, steer } from '../steering';
import { argsOf, stateOf, targetsOf, type Target } from '../targets';
import { belowRoot, jobsIn } from '../where';

type Asked = [string, Record<string, unknown> | undefined];

/** A model that notes what is asked of it; `jobs` are those it knows. */
function fakeModel(jobs: Partial<Job>[] = [], returncode = 0): [ISlurmModel, Asked[]] {
  const asked: Asked[] = [];
  const answer = (name: string, args?: Record<string, unknown>): Promise<unknown> => {
    asked.push([name, args]);
    const adopted = { id: 'adopted', cluster: 'a' };
    const done = { returncode, stdout: '', stderr: 'scancel: no' };
    return Promise.resolve(name === 'command' ? done : adopted);
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

test('a job that only Slurm knows is adopted first, ours is not', async () => {
  const [model, asked] = fakeModel([{ id: 'ours', cluster: 'a' }]);
  await steer(model, [OURS, THEIRS], 'hold');
  expect(asked).toEqual([
    ['hold', { job_id: 'ours' }],
    ['adopt', { slurm_id: '8', cluster: 'a' }],
    ['hold', { job_id: 'adopted' }]
  ]);
});

test.each([
  ['12_3', ['scancel', '12_3']],
  ['12_[4-9%2]', ['scancel', '12_[4-9]']]
])('of an array only %s is cancelled, not all of it', async (slurm_id, argv) => {
  const [model, asked] = fakeModel([{ id: 'whole', cluster: 'a' }]);
  await steer(model, [{ cluster: 'a', id: 'whole', slurm_id }], 'cancel');
  expect(asked).toEqual([['command', { argv, cluster: 'a' }]]);
});

test('many are cancelled by one call for each cluster', async () => {
  const [model, asked] = fakeModel([
    { id: 'ours', cluster: 'a' },
    { id: 'far', cluster: 'b' }
  ]);
  const far: Target = { cluster: '', id: 'far', slurm_id: '9' };
  const tasks: Target = { cluster: 'a', id: 'ours', slurm_id: '7_[4-9%2]' };
  await steer(model, [OURS, THEIRS, far, tasks], 'cancel');
  expect(asked).toEqual([
    ['cancel_many', { cluster: 'a', job_ids: ['ours'], slurm_ids: ['8', '7_[4-9]'] }],
    ['cancel_many', { cluster: 'b', job_ids: ['far'], slurm_ids: [] }]
  ]);
});

test("what Slurm's own command says of its failure is told", async () => {
  const [model] = fakeModel([], 1);
  const failed = steer(model, [{ cluster: 'a', id: null, slurm_id: '12_3' }], 'cancel');
  await expect(failed).rejects.toThrow('scancel 12_3: scancel: no');
});

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
])('%s below %s is %s', (path, root, expected) => {
  expect(belowRoot(path, root)).toBe(expected);
});

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
