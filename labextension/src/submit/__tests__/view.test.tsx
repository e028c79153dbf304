import { InputDialog, type Dialog } from '@jupyterlab/apputils';
import type { CodeEditor, IEditorServices } from '@jupyterlab/codeeditor';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { SlurmError } from '../../server';
import { CommandIDs, type ISlurmModel } from '../../tokens';
import type { Connection } from '../../wire';
import { NO_WISHES } from '../form';
import { Memory } from '../memory';
import type { Source } from '../source';
import { SubmitView, type SubmitProps } from '../view';

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

class FakeModel {
  readonly clusters = [
    {
      name: 'far',
      host: 'far',
      runtime: 'none',
      origin: '',
      default: true,
      images: [],
      problem: null
    }
  ];
  readonly freshness = { asOf: 1, problem: null };
  connections = new Map([['far', { cluster: 'far', state: 'login-needed' } as Connection]]);
  readonly calls: string[] = [];
  answers: Record<string, unknown> = {};

  async call(name: string): Promise<unknown> {
    this.calls.push(name);
    const answer = this.answers[name] ?? loginNeeded();
    if (answer instanceof Error) {
      throw answer;
    }
    return Promise.resolve(answer);
  }

  nodes(): object {
    return {
      cluster: 'far',
      partitions: [],
      freshness: { asOf: null, problem: null },
      changed: new Signal(this),
      dispose: () => undefined
    };
  }
}

function loginNeeded(): SlurmError {
  const message = 'far needs a login.';
  const problem = {
    code: 'login-needed',
    message,
    hint: null,
    detail: null,
    option: null,
    transient: false
  };
  return new SlurmError(problem, 401);
}

const info = { accounts: [], qos: [], partitions: [] };
let root: Root;
let host: HTMLElement;
const connect = jest.fn<undefined, [object]>();
const commands = new CommandRegistry();
commands.addCommand(CommandIDs.connect, { execute: connect });
/** A stand-in for JupyterLab's editor: a textarea. */
const editors = {
  mimeTypeService: { getMimeTypeByLanguage: () => 'text/plain' },
  factoryService: {
    newInlineEditor: ({ host: box, model: { sharedModel } }: CodeEditor.IOptions) => {
      const area = box.appendChild(document.createElement('textarea'));
      area.oninput = () => sharedModel.setSource(area.value);
      return { dispose: () => area.remove() };
    }
  }
} as unknown as IEditorServices;
const props = {
  commands,
  editors,
  submit: jest.fn<Promise<void>, unknown[]>(() => Promise.resolve()),
  keep: jest.fn()
};

beforeEach(() => {
  jest.clearAllMocks();
  jest.useFakeTimers();
  host = document.body.appendChild(document.createElement('div'));
  root = createRoot(host);
});

afterEach(() => {
  act(() => root.unmount());
  host.remove();
  jest.useRealTimers();
});

async function show(model: FakeModel, source: Source = { kind: 'code', code: 'x' }): Promise<void> {
  const all: SubmitProps = {
    ...props,
    model: model as unknown as ISlurmModel,
    source,
    draft: { wishes: { ...NO_WISHES, cluster: 'far' }, code: 'x' },
    memory: new Memory(null)
  };
  act(() => root.render(<SubmitView {...all} />));
  await act(async () => {
    await jest.advanceTimersByTimeAsync(1000);
  });
}

async function press(name: string): Promise<void> {
  await act(async () => {
    [...host.querySelectorAll('button')].find(one => one.textContent === name)?.click();
    await jest.advanceTimersByTimeAsync(0);
  });
}

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

function field(name: string): Control {
  const code = host.querySelector('textarea');
  if (name === 'Code' && code !== null) {
    return code;
  }
  const label = [...host.querySelectorAll('label')].find(one => one.textContent === name);
  const found = host.querySelector<Control>(`[id="${label?.htmlFor}"]`);
  if (found === null) {
    throw new Error(`${name} not found.`);
  }
  return found;
}

/** Type as a user would, since React tracks its own setter. */
async function type(name: string, value: string): Promise<void> {
  await act(async () => {
    const control = field(name);
    const own = Object.getPrototypeOf(control) as object;
    Object.getOwnPropertyDescriptor(own, 'value')?.set?.call(control, value);
    const event = control instanceof HTMLSelectElement ? 'change' : 'input';
    control.dispatchEvent(new Event(event, { bubbles: true }));
    await jest.advanceTimersByTimeAsync(0);
  });
}

test('a form for a cluster that needs a login starts the login when Log in is pressed', async () => {
  const model = new FakeModel();
  await show(model);
  expect(host.querySelector('[role=alert]')?.textContent).toContain('far needs a login.');
  expect(model.calls).not.toContain('connect');
  expect(host.textContent?.match(/far needs a login/g)).toHaveLength(1);
  await press('Log in');
  expect(connect.mock.calls[0]?.[0]).toEqual({ cluster: 'far' });
  model.connections = new Map([['far', { cluster: 'far', state: 'open' } as Connection]]);
  model.answers = {
    cluster_info: info,
    images: [],
    outlook: { checks: [], script: '', sbatch: [], cost: null, start_estimate_s: 1 }
  };
  await show(model);
  expect(host.querySelector('[role=alert]')).toBeNull();
  expect(host.textContent).toContain('Expected to start immediately');
  await press('Submit');
  expect(props.submit).toHaveBeenCalledTimes(1);
});

test('a rejected job is not sent, an error is shown, and two clicks submit one job', async () => {
  const model = new FakeModel();
  const check = { ok: false, sentence: '9d is more than it allows.', hint: null, option: 'time' };
  const outlook = {
    checks: [check],
    script: '',
    sbatch: [],
    cost: null,
    start_estimate_s: null
  };
  model.answers = { cluster_info: info, images: [], outlook };
  await show(model);
  await press('Submit');
  expect(props.submit).not.toHaveBeenCalled();
  expect(document.activeElement?.getAttribute('aria-invalid')).toBe('true');

  model.answers = { ...model.answers, outlook: { ...outlook, checks: [] } };
  model.connections = new Map();
  await show(model);
  let fail: (error: Error) => void = () => undefined;
  props.submit.mockImplementation(() => new Promise((_, reject) => (fail = reject)));
  await press('Submit');
  await press('Submitting…');
  expect(props.submit).toHaveBeenCalledTimes(1);
  await act(async () => {
    fail(new Error('No.'));
    await jest.advanceTimersByTimeAsync(0);
  });
  expect(host.querySelector('[role=alert]')?.textContent).toContain('No.');
});

test("a cell's line may use variables of its kernel", async () => {
  const model = new FakeModel();
  const problem = {
    code: 'request',
    message: '`{n}`: unknown variable `n`.',
    hint: null,
    detail: null,
    option: null,
    transient: false
  };
  model.answers = { cluster_info: info, images: [], outlook: new SlurmError(problem, 400) };
  await show(model, {
    kind: 'cell',
    cell: 'c',
    notebook: 'a.ipynb',
    body: () => 'y',
    run: () => Promise.resolve({ job: Promise.resolve(null) })
  });
  await press('Submit');
  expect(props.submit.mock.calls[0]?.slice(1)).toEqual(['--cluster far', 'y']);
});

test('Submit shows why it waits, and checks the latest input before submission', async () => {
  const model = new FakeModel();
  const outlook = { checks: [], script: '', sbatch: [], cost: null, start_estimate_s: 1 };
  const wrong = { ok: false, sentence: 'No.', hint: null, option: null };
  model.answers = { cluster_info: info, images: [], outlook: { ...outlook, checks: [wrong] } };
  const status = (): string | null | undefined => host.querySelector('[role=status]')?.textContent;
  const button = (): HTMLElement | null => host.querySelector('.jp-mod-accept');
  await show(model);
  expect(status()).toBe('No.');
  expect(host.textContent?.match(/No\./g)).toHaveLength(1);
  expect(button()?.getAttribute('aria-disabled')).toBe('true');
  await type('Code', '');
  expect(status()).toBe('Enter the code.');
  expect(host.querySelector('[role=status]')?.getAttribute('data-wrong')).toBe('false');
  model.answers = { ...model.answers, outlook };
  await type('Code', 'y');
  expect(status()).toBe('Checking…');
  await press('Submit');
  expect(props.submit).not.toHaveBeenCalled();
  expect(host.textContent?.match(/Checking…/g)).toHaveLength(1);
  expect(button()?.getAttribute('aria-disabled')).toBe('true');
  await act(async () => {
    await jest.advanceTimersByTimeAsync(1000);
  });
  expect(props.submit).toHaveBeenCalledTimes(1);
});

test('a preset is saved by name, applied, and removed', async () => {
  const model = new FakeModel();
  await show(model);
  const preset = (): HTMLSelectElement => field('Preset') as HTMLSelectElement;
  const offered = (): string[] => [...preset().options].map(one => one.text);
  expect(offered()).toEqual(['Cluster defaults']);
  await type('Image', 'python:3.11');
  await type('Environment', 'TOKEN=secret');
  await type('Name', 'mine');
  expect(preset().selectedOptions[0]?.text).toBe('Custom');
  const named = { button: { accept: true }, value: 'Ours' };
  jest.spyOn(InputDialog, 'getText').mockResolvedValueOnce(named as Dialog.IResult<string>);
  await press('Save as preset…');
  expect(preset().selectedOptions[0]?.text).toBe('Ours');
  await type('Preset', 'usual');
  expect(field('Image').value).toBe('');
  await type('Preset', 'favourite:Ours');
  expect(field('Image').value).toBe('python:3.11');
  expect(field('Environment').value).toBe('TOKEN');
  expect(field('Name').value).toBe('mine');
  await press('Remove preset');
  expect(offered()).toEqual(['Custom', 'Cluster defaults']);
});
