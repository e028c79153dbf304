// A notebook that is open in a lab too is told once, and nobody is asked where there is no lab.
import { FakeModel, job } from '../../__tests__/fakes';
import type { ISlurmModel } from '../../tokens';
import type { Job } from '../../wire';
import { Elsewhere } from '../elsewhere';

async function told(jobs: Job[]): Promise<{ said: string[]; asked: string[] }> {
  const [said, asked]: [string[], string[]] = [[], []];
  const call = <T>(name: string): Promise<T> => {
    asked.push(name);
    return Promise.resolve({ notebooks: { 'far/away/a.ipynb': ['fit on n1'] } } as T);
  };
  const model: ISlurmModel = Object.assign(new FakeModel(), { call });
  jobs.forEach(one => (model.jobs as Map<string, Job>).set(one.id, one));
  let change: () => void = () => undefined;
  const current = {
    path: () => 'far/away/a.ipynb',
    changed: (act: () => void) => {
      change = act;
    }
  };
  new Elsewhere(model, current, message => said.push(message));
  await jest.advanceTimersByTimeAsync(3000);
  change();
  await jest.advanceTimersByTimeAsync(3000);
  await jest.advanceTimersByTimeAsync(60_000);
  return { said, asked };
}

beforeEach(() => {
  jest.useFakeTimers();
});

afterEach(() => {
  jest.useRealTimers();
});

test('it is told once while a lab lives', async () => {
  const { said, asked } = await told([job({ kind: 'lab', state: 'RUNNING' })]);
  expect(said).toEqual([
    'a.ipynb is also open in fit on n1. Keep it open in one place only: each saves over the others.'
  ]);
  expect(asked).toEqual(['elsewhere', 'elsewhere', 'elsewhere']);
});

test('nobody is asked where no lab lives', async () => {
  const ended = job({ kind: 'lab', state: 'COMPLETED' });
  expect(await told([job(), ended])).toEqual({ said: [], asked: [] });
});
