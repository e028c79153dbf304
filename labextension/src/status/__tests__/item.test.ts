import { connection, FakeModel, job, listed } from '../../__tests__/fakes';
import { stateCounts } from '../../queue/listing';
import { linesOf, listingOf } from '../../sidebar/rows';
import { summary } from '../item';

/** The heads of the sidebar with their counts. */
function heads(model: FakeModel): unknown[] {
  const { groups, tasks } = listingOf(model.rows);
  return linesOf(groups, tasks, () => false).flatMap(line =>
    line.kind === 'group' ? [[line.group, line.count]] : []
  );
}

test('the status item counts running and waiting jobs, not ended jobs', () => {
  const model = new FakeModel();
  expect(summary(model)).toEqual({ text: 'Slurm', told: 'no jobs running or waiting' });
  model.put(job({ id: 'aaaaaaaa' }));
  model.put(job({ id: 'bbbbbbbb', state: 'CONFIGURING' }));
  model.put(job({ id: 'cccccccc', state: 'PENDING' }));
  model.put(job({ id: 'dddddddd', state: 'FAILED' }));
  expect(summary(model)).toEqual({
    text: 'Slurm 2 ▶ 1 ◷',
    told: '2 jobs run, 1 job waits'
  });
});

test("an array's tasks count as jobs, as in the queue and the sidebar", () => {
  const model = new FakeModel();
  model.put(
    job({
      id: 'aaaaaaaa',
      slurm_id: '7',
      tasks: { COMPLETED: '1-100', RUNNING: '101-103', PENDING: '104-5004' }
    })
  );
  model.put(job({ id: 'bbbbbbbb', slurm_id: '8', state: 'PENDING' }));
  const array = 'aaaaaaaa';
  model.listed = [
    ...['7_101', '7_102', '7_103'].map(id => listed(id, { array })),
    listed('7_[104-5004%3]', { array, state: 'PENDING' })
  ];
  const counts = [
    ['RUNNING', 3],
    ['PENDING', 4902]
  ];
  expect(stateCounts(model.rows)).toEqual(counts);
  expect(summary(model).text).toBe('Slurm 3 ▶ 4,902 ◷');
  expect(heads(model)).toEqual([
    ['running', 3],
    ['waiting', 4902]
  ]);
});

test('jobs submitted elsewhere count while their queue is watched', () => {
  const model = new FakeModel();
  model.put(job({ id: 'aaaaaaaa' }));
  model.listed = [listed('9', { tasks: { RUNNING: '1', PENDING: '2-4' } })];
  model.connections = new Map([['arandu', connection()]]);
  expect(summary(model).told).toBe('Submitted from this machine: 1 job runs');
  model.queues = new Map([['arandu', { asOf: 1, problem: null }]]);
  expect(summary(model).told).toBe('2 jobs run, 3 jobs wait');
  expect(heads(model)).toEqual([['running', 2]]);
});

test('a required login is shown only for clusters with jobs', () => {
  const model = new FakeModel();
  model.connections = new Map([['arandu', connection({ state: 'login-needed' })]]);
  expect(summary(model).text).toBe('Slurm');
  model.put(job());
  expect(summary(model)).toEqual({
    text: 'Slurm 1 ▶ 0 ◷ ⚠',
    told: '1 job runs, arandu needs a login'
  });
});
