import { connection, job, NOW_S } from '../../__tests__/fakes';
import type { Job, Problem } from '../../wire';
import { attaching, facts, notes, place, times } from '../facts';

const FRESH = { asOf: NOW_S, problem: null };
const PROBLEM: Problem = {
  code: 'unreachable',
  message: 'arandu does not answer.',
  hint: null,
  detail: null,
  option: null,
  transient: true
};

function line(fields: Partial<Job>): string {
  const known = job(fields);
  return [...times(known, NOW_S), ...facts(known)].map(fact => fact.join(' ')).join(' · ');
}

function said(fields: Partial<Job>, freshness = FRESH as Parameters<typeof notes>[1]): string[] {
  return notes(job(fields), freshness, undefined, NOW_S).map(one => one.text);
}

test('a running job shows its time, limit, node and resources', () => {
  expect(line({ image: 'python:3.11', runtime: 'apptainer' })).toBe(
    'Running 2 min 5 s of 1 h · Node n1 · GPUs 2 · Image python:3.11 (apptainer)'
  );
  expect(line({ python: [3, 9, 2] })).toBe(
    'Running 2 min 5 s of 1 h · Node n1 · GPUs 2 · Python 3.9.2'
  );
});

test('a waiting job shows its waiting time and estimated start', () => {
  const waits: Partial<Job> = { state: 'PENDING', started_s: null, nodes: [] };
  expect(line({ ...waits, gpus: 0 })).toBe('Waiting 3 min 20 s');
  expect(line({ ...waits, start_estimate_s: NOW_S + 90 })).toMatch(
    /^Waiting 3 min 20 s · Starts ~.+ · GPUs 2$/
  );
});

test('an ended job shows its end and its usage', () => {
  const usage = {
    elapsed_s: 100,
    cpu_s: 300,
    cpus: 4,
    peak_memory_mib: 1536,
    memory_mib: 2048,
    gpus: 2
  };
  const text = line({ state: 'FAILED', ended_s: NOW_S - 25, exit_code: 2, usage });
  expect(text).toMatch(
    /^Ran 1 min 40 s · Ended .+ · Reason exit code 2 · Node n1 · GPUs 2 · Peak memory 1\.5 GiB \/ 2/
  );
  expect(text).toMatch(/CPU 75 %$/);
  expect(line({ state: 'FAILED', ended_s: NOW_S, signal: 9, exit_code: 137 })).toContain(
    'killed by signal 9'
  );
  expect(line({ state: 'CANCELLED', ended_s: NOW_S, exit_code: 1 })).not.toContain('exit code');
  expect(line({ state: 'TIMEOUT', ended_s: NOW_S, signal: 15 })).not.toContain('signal');
});

test('reasons are shown for waiting jobs and, as errors, for failed jobs only', () => {
  const told = { why: 'Others are before it.', advice: 'Request fewer GPUs.' };
  expect(said({ state: 'PENDING', ...told })).toEqual([
    'Others are before it. Request fewer GPUs.'
  ]);
  const failed = notes(job({ state: 'FAILED', ...told }), FRESH, undefined, NOW_S);
  expect(failed).toEqual([{ tone: 'bad', text: 'Others are before it. Request fewer GPUs.' }]);
  expect(said({ state: 'COMPLETED', ...told })).toEqual([]);
});

test('a stale state is shown with its age unless it is final', () => {
  const old = { asOf: NOW_S - 60, problem: PROBLEM };
  expect(said({}, old)).toEqual([expect.stringMatching(/^Last update .+ arandu/)]);
  const hinted = { ...PROBLEM, hint: 'Wait.' };
  expect(said({ problem: hinted, problem_since_s: null })).toEqual([
    'Showing the last known state: arandu does not answer. Wait.'
  ]);
  const cut = connection({ state: 'lost', problem: PROBLEM });
  expect(notes(job(), FRESH, cut, NOW_S)[0]?.text).toMatch(/arandu does not answer/);
  expect(said({ state: 'COMPLETED', problem: PROBLEM }, old)).toEqual([]);
});

test("a session's end is announced shortly before its limit or idle timeout", () => {
  const session = { kind: 'session', started_s: NOW_S - 3500 } as const;
  expect(said(session)).toEqual([expect.stringMatching(/ends in 1 min 40 s/)]);
  expect(said({ ...session, limit_s: 7200 })).toEqual([]);
  const idle = { limit_s: 7200, idle_s: 600, idle_since_s: NOW_S - 500 };
  expect(said({ ...session, ...idle })).toEqual([
    expect.stringMatching(/ends in 1 min 40 s/),
    'Shuts down after 10 min idle (idle for 8 min 20 s).'
  ]);
  const short = { ...session, limit_s: 7200, idle_s: 300 };
  expect(said({ ...short, idle_since_s: NOW_S - 10 })).toEqual([
    'Shuts down after 5 min idle (idle for 10 s).'
  ]);
  expect(said({ ...short, idle_since_s: NOW_S - 250 })[0]).toMatch(/ends in 50 s/);
  expect(said({ ...short, limit_s: 3600, idle_since_s: NOW_S - 250 })[0]).toMatch(/ends in 50 s/);
  expect(said({ session: 'b2b4c6d7', session_ends_s: NOW_S + 30 })).toEqual([
    expect.stringMatching(/ends in 30 s/)
  ]);
});

test('an undelivered result shows how to attach', () => {
  const over = { state: 'COMPLETED', delivered: false } as const;
  expect(attaching(job(over))?.text).toBe('Run `%slurm attach a2b4c6d7` to show its output here.');
  expect(said(over)).toEqual([]);
  expect(attaching(job({ ...over, delivered: true }))).toBeNull();
});

test('control characters from a cluster cannot reverse the text around them', () => {
  expect(place(job({ cluster: 'a\u202eb' }))).toBe('Job 123 · a\ufffdb · gpu');
  expect(line({ nodes: ['n\n1'] })).toContain('n 1');
});
