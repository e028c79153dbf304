import type { CommandRegistry } from '@lumino/commands';
import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { SlurmError } from '../../server';
import type { ISlurmModel } from '../../tokens';
import { Welcome } from '../view';

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
const call = jest.fn<Promise<unknown>, [string]>();
let root: Root;
let host: HTMLElement;

beforeEach(async () => {
  jest.clearAllMocks();
  host = document.body.appendChild(document.createElement('div'));
  root = createRoot(host);
  await act(async () => {
    root.render(
      <Welcome
        model={{ call } as unknown as ISlurmModel}
        commands={{} as unknown as CommandRegistry}
      />
    );
    await Promise.resolve();
  });
});

afterEach(() => {
  act(() => root.unmount());
  host.remove();
});

async function press(label: string): Promise<void> {
  const button = [...host.querySelectorAll('button')].find(one => one.textContent?.includes(label));
  await act(async () => {
    button?.click();
    await Promise.resolve();
  });
}

const status = (): string => host.querySelector('[role=status]')?.textContent ?? '';

test('a private cluster is started once and shows its progress', async () => {
  const answers: ((start: object) => void)[] = [];
  call.mockImplementation(name =>
    name === 'up' ? new Promise(resolve => answers.push(resolve)) : Promise.resolve([])
  );
  await press('Start a local cluster');
  await press('Start a local cluster');
  expect(call.mock.calls).toEqual([['up']]);
  expect(status()).toBe('Starting…');
  await act(async () => {
    answers[0]?.({ said: ['before', 'Starting slurm 22.05 …'], done: false });
    await Promise.resolve();
  });
  expect(status()).toBe('Starting slurm 22.05 …');
  await act(async () => {
    answers[1]?.({ said: [], done: true });
    await Promise.resolve();
  });
  expect(call.mock.calls).toEqual([['up'], ['up'], ['clusters']]);
});

test('missing packages are shown with their install command, and a retry is offered', async () => {
  const problem = {
    code: 'config',
    message: 'A private Slurm needs packages that are not on this machine: slurm-wlm.',
    hint: 'Install them: sudo apt-get install --no-install-recommends slurm-wlm',
    detail: null,
    option: null,
    transient: false
  };
  call.mockRejectedValue(new SlurmError(problem, 400));
  await press('Start a local cluster');
  const alert = host.querySelector('[role=alert]')?.textContent;
  expect(alert).toBe(`${problem.message} ${problem.hint}`);
  expect(status()).toBe('');
  await press('Start a local cluster');
  expect(call).toHaveBeenCalledTimes(2);
});
