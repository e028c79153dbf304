import type { Dialog } from '@jupyterlab/apputils';
import { SlurmError } from '../../server';
import type { ISlurmModel } from '../../tokens';
import type { Problem } from '../../wire';
import { addCluster, type Found, type Ways } from '../adding';

type Body = Dialog.IBodyWidget<unknown> & { node: HTMLElement };
interface Launched {
  title: string;
  body: Body;
}

type Answer = (node: HTMLElement) => boolean;

/** The user's input for each dialog in turn, and whether they accept it. */
let users: Answer[] = [];
const launched: Launched[] = [];

jest.mock('@jupyterlab/apputils', () => {
  class FakeDialog {
    static cancelButton = jest.fn();
    static okButton = jest.fn();
    constructor(private readonly options: Launched) {}
    launch(): Promise<{ button: { accept: boolean }; value: unknown }> {
      launched.push(this.options);
      const { body } = this.options;
      const accept = users.shift()?.(body.node) ?? false;
      return Promise.resolve({ button: { accept }, value: body.getValue?.() });
    }
  }
  return { Dialog: FakeDialog };
});

const WAYS: Ways = {
  hosts: ['far.example.org'],
  templates: [
    { name: 'arandu', about: 'Arandu', hint: 'Is the VPN on?', ask: { user: 'Your user name' } }
  ]
};

const PARTITION = { name: 'debug', nodes: 2, gpus: 0, limit_s: 3600 };
const FOUND = {
  info: { slurm_version: '23.11', partitions: [PARTITION], accounts: ['a', 'b'] },
  python: '3.11',
  runtimes: ['apptainer', 'none'],
  job_roots: ['~/jobs', '/scratch/jobs'],
  partition: ''
} as unknown as Found;
const NOT_THERE = { code: 'transport', message: 'far does not answer.' } as Problem;

const connect = jest.fn<Promise<boolean>, [string]>();
const calls: [string, unknown][] = [];
const model = {
  connect,
  call: (name: string, args?: unknown) => {
    calls.push([name, args]);
    return Promise.resolve({ cluster_ways: WAYS, cluster_found: FOUND }[name] ?? {});
  }
} as unknown as ISlurmModel;
const steps = (): string[] => calls.map(([name]) => name);

beforeEach(() => {
  users = [];
  launched.length = 0;
  calls.length = 0;
  connect.mockReset().mockResolvedValue(true);
});

function field(node: HTMLElement, label: string): HTMLInputElement {
  const labels = [...node.querySelectorAll('label')];
  const named = labels.find(one => one.firstChild?.textContent === label);
  const found = named?.querySelector<HTMLInputElement>('input, select, textarea');
  if (!found) {
    throw new Error(`Field ${label} not found.`);
  }
  return found;
}

function type(node: HTMLElement, label: string, value: string): void {
  const typed = field(node, label);
  typed.value = value;
  typed.dispatchEvent(new Event(typed.tagName === 'SELECT' ? 'change' : 'input'));
}

function typesHost(node: HTMLElement): boolean {
  type(node, 'Host', 'far.example.org');
  return true;
}

const agrees = (): boolean => true;
const givesUp = (): boolean => false;

test("a cluster is saved with the user's choices after the login", async () => {
  users = [
    node => {
      type(node, 'Directory of Slurm commands', '/opt/slurm/bin');
      type(node, 'Environment', 'A=1\nB=2');
      return typesHost(node);
    },
    node => {
      type(node, 'Job directory', '/scratch/jobs');
      type(node, 'Account', 'b');
      return true;
    }
  ];
  expect(await addCluster(model)).toBe('far');
  expect(steps()).toEqual(['cluster_ways', 'cluster_begin', 'cluster_found', 'cluster_keep']);
  const way = { name: 'far', host: 'far.example.org', user: '', jump: '', template: '' };
  const commands = { path: '/opt/slurm/bin', env: 'A=1\nB=2' };
  expect(calls[1]?.[1]).toEqual({ ...way, ...commands, answers: {} });
  const chosen = { runtime: 'apptainer', job_root: '/scratch/jobs', partition: '', account: 'b' };
  expect(calls[3]?.[1]).toEqual({ name: 'far', ...chosen });
  expect(launched[1]?.body.node.textContent).toContain('Slurm 23.11 · Python 3.11');
});

test('a cancelled login or summary saves nothing', async () => {
  users = [typesHost];
  connect.mockResolvedValueOnce(false);
  expect(await addCluster(model)).toBeNull();
  expect(steps()).toEqual(['cluster_ways', 'cluster_begin', 'cluster_drop']);
  users = [typesHost, givesUp];
  expect(await addCluster(model)).toBeNull();
  expect(steps().slice(-2)).toEqual(['cluster_found', 'cluster_drop']);
});

test('a failed connection reopens the form with its values and the error', async () => {
  users = [typesHost, givesUp];
  connect.mockRejectedValue(new SlurmError(NOT_THERE, 502));
  expect(await addCluster(model)).toBeNull();
  expect(steps().at(-1)).toBe('cluster_drop');
  const again = launched[1]?.body.node ?? document.body;
  expect(again.querySelector('[role=alert]')?.textContent).toBe('far does not answer.');
  expect([field(again, 'Host').value, field(again, 'Name').value]).toEqual([
    'far.example.org',
    'far'
  ]);
});

test('a template asks its own questions, but does not ask about detected settings', async () => {
  users = [
    node => {
      type(node, 'Template', 'arandu');
      expect(node.textContent).toContain('Is the VPN on?');
      type(node, 'Your user name', 'ana');
      return true;
    },
    agrees
  ];
  expect(await addCluster(model)).toBe('arandu');
  expect(calls[1]?.[1]).toMatchObject({ template: 'arandu', answers: { user: 'ana' }, host: '' });
  expect(calls.at(-1)).toEqual(['cluster_keep', { name: 'arandu' }]);
});
