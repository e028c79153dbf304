import { CommandRegistry } from '@lumino/commands';
import { connection, job, type Fields } from '../../__tests__/fakes';
import { CommandIDs } from '../../tokens';
import type { Connection } from '../../wire';
import { more, remediesOf } from '../remedies';

const USAGE = { elapsed_s: 9, cpu_s: 9, cpus: 1, peak_memory_mib: 6100, memory_mib: 6144, gpus: 0 };
const KILLED = { state: 'OUT_OF_MEMORY', usage: USAGE } as const;

/** The labels of a job's buttons, and the commands that they run. */
function pressed(
  fields: Fields,
  { there = connection(), isEnabled = true }: { there?: Connection; isEnabled?: boolean } = {}
): [string[], unknown[]] {
  const asked: unknown[] = [];
  const commands = new CommandRegistry();
  const { connect, release, retry, submitAgain } = CommandIDs;
  for (const id of [connect, release, retry, submitAgain]) {
    commands.addCommand(id, { isEnabled: () => isEnabled, execute: args => asked.push(args) });
  }
  const found = remediesOf(job(fields), there, commands);
  found.forEach(one => one.act());
  return [found.map(one => one.label), asked];
}

test('a job that waits for the user has a button for the next step', () => {
  const lost = connection({ state: 'login-needed' });
  expect(pressed({}, { there: lost })).toEqual([['Log in'], [{ cluster: 'arandu' }]]);
  expect(pressed({ state: 'COMPLETED' }, { there: lost })[0]).toEqual([]);
  expect(pressed({ state: 'PENDING', reason: 'JobHeldUser' })).toEqual([
    ['Release'],
    [{ id: 'a2b4c6d7' }]
  ]);
});

test('a job that ran out of memory can be resubmitted with more memory', () => {
  expect(pressed(KILLED)).toEqual([
    ['Submit again with --mem 9G'],
    [{ id: 'a2b4c6d7', option: 'mem', value: '9G' }]
  ]);
  expect(pressed(KILLED, { isEnabled: false })[0]).toEqual([]);
});

test('failed tasks of a sweep can be submitted again, also while others run', () => {
  const tasks = { COMPLETED: '0-2', RUNNING: '3', OUT_OF_MEMORY: '4' };
  const retry = [['Retry'], [{ id: 'a2b4c6d7' }]];
  expect(pressed({ kind: 'sweep', tasks })).toEqual(retry);
  expect(pressed({ kind: 'sweep', state: 'CANCELLED', tasks: { CANCELLED: '0-4' } })).toEqual(
    retry
  );
  expect(pressed({ kind: 'script', tasks })[0]).toEqual([]);
  expect(pressed({ kind: 'sweep', tasks: { COMPLETED: '0', RUNNING: '1' } })[0]).toEqual([]);
});

test("a resubmission gets 1.5 times the memory or twice the time, in Slurm's format", () => {
  const small = { ...USAGE, memory_mib: 500 };
  expect(more(job({ ...KILLED, usage: small }))?.value).toBe('750M');
  const late = (limit_s: number): string | undefined =>
    more(job({ state: 'TIMEOUT', limit_s }))?.value;
  expect([late(60), late(5_400), late(86_400)]).toEqual(['00:02:00', '03:00:00', '2-00:00:00']);
  expect(more(job({ ...KILLED, nodes: ['n1', 'n2'] }))).toBeNull();
  expect(more(job({ ...KILLED, session: 's2s2s2s2' }))).toBeNull();
  expect(more(job({ ...KILLED, kind: 'script' }))).toBeNull();
});
