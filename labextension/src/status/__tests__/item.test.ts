import { connection, FakeModel, job } from '../../__tests__/fakes';
import { stateCounts } from '../../queue/listing';
import { JobIndex } from '../../sidebar/job_index';
import { linesOf } from '../../sidebar/tree';
import type { QueueEntry } from '../../wire';
import { summary } from '../item';

test('it counts what runs and what waits, and nothing that has ended', () => {
  const model = new FakeModel();
  expect(summary(model)).toEqual({ text: 'Slurm', told: 'no job runs or waits' });
  model.put(job({ id: 'aaaaaaaa' }));
  model.put(job({ id: 'bbbbbbbb', state: 'CONFIGURING' }));
  model.put(job({ id: 'cccccccc', state: 'PENDING' }));
  model.put(job({ id: 'dddddddd', state: 'FAILED' }));
  expect(summary(model)).toEqual({
    text: 'Slurm 2 ▶ 1 ◷',
    told: '2 jobs run, 1 job waits'
  });
});

test('each task of an array is a job, as in the queue and at the heads of the sidebar', () => {
  const model = new FakeModel();
  model.put(
    job({
      id: 'aaaaaaaa',
      slurm_id: '7',
      tasks: { COMPLETED: '1-100', RUNNING: '101-103', PENDING: '104-5004' }
    })
  );
  model.put(job({ id: 'bbbbbbbb', slurm_id: '8', state: 'PENDING' }));
  const entries = [
    { state: 'RUNNING', slurm_id: '7_101', id: 'aaaaaaaa', array_id: '7' },
    { state: 'RUNNING', slurm_id: '7_102', id: 'aaaaaaaa', array_id: '7' },
    { state: 'RUNNING', slurm_id: '7_103', id: 'aaaaaaaa', array_id: '7' },
    { state: 'PENDING', slurm_id: '7_[104-5004%3]', id: 'aaaaaaaa', array_id: '7' },
    { state: 'PENDING', slurm_id: '8', id: 'bbbbbbbb' }
  ] as QueueEntry[];
  expect(stateCounts(entries)).toEqual([
    ['RUNNING', 3],
    ['PENDING', 4902]
  ]);
  expect(summary(model).text).toBe('Slurm 3 ▶ 4,902 ◷');
  const jobs = [...model.jobs.values()];
  const sidebar = new JobIndex().update(jobs, new Map([['arandu', entries]]), new Map());
  const heads = linesOf(sidebar.groups, () => false).flatMap(line =>
    line.kind === 'group' ? [[line.group, line.count]] : []
  );
  expect(heads).toEqual([
    ['running', 3],
    ['waiting', 4902]
  ]);
});

test('jobs that were submitted elsewhere count while a queue tells of them', () => {
  const model = new FakeModel();
  model.put(job({ id: 'aaaaaaaa' }));
  model.listed = [
    { state: 'RUNNING', slurm_id: '123', id: 'aaaaaaaa' },
    { state: 'RUNNING', slurm_id: '9_1', array_id: '9' },
    { state: 'PENDING', slurm_id: '9_[2-4]', array_id: '9' }
  ] as QueueEntry[];
  const { told } = summary(model);
  expect(told).toBe('2 jobs run, 3 jobs wait');
  const sidebar = new JobIndex().update(
    model.jobs.values(),
    new Map([['arandu', model.listed]]),
    new Map()
  );
  const [head] = linesOf(sidebar.groups, () => false);
  expect(head).toMatchObject({ group: 'running', count: 2 });
});

test('a cluster with jobs that wants a login is told of, one without is not', () => {
  const model = new FakeModel();
  model.connections = new Map([['arandu', connection({ state: 'login-needed' })]]);
  expect(summary(model).text).toBe('Slurm');
  model.put(job());
  expect(summary(model)).toEqual({
    text: 'Slurm 1 ▶ 0 ◷ ⚠',
    told: '1 job runs, arandu wants a login'
  });
});
