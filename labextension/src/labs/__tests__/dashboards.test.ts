import { job } from '../../__tests__/fakes';
import { dashboardsOf } from '../dashboards';

test('a job that runs has the dashboard of its engine, and TensorBoard where it was asked for', () => {
  expect(dashboardsOf(job())).toEqual([]);
  expect(dashboardsOf(job({ launch: 'torchrun' }))).toEqual([]);
  expect(dashboardsOf(job({ launch: 'dask' }))).toEqual(['dask']);
  expect(dashboardsOf(job({ launch: 'ray', tensorboard: 'logs' }))).toEqual(['ray', 'tensorboard']);
  expect(dashboardsOf(job({ launch: 'ray', state: 'COMPLETED' }))).toEqual([]);
  expect(dashboardsOf(job({ kind: 'session', launch: 'ray' }))).toEqual(['ray']);
});
