// The bar of a lab (node/lab_page.js), loaded as JupyterLab on a node loads it.
import { Widget } from '@lumino/widgets';

const SCRIPT = '../../../../jupyter_slurm/node/lab_page.js';
const NOW_S = 1_000_000;
const FACTS = { id: 'abcdefgh', name: 'fit', node: 'n1', gpus: 2, end_s: NOW_S + 4800 };

type Loaded = Record<
  string,
  {
    init: (modules: unknown) => void;
    get: () => Promise<
      () => { default: { activate: (app: unknown, translator: unknown) => Promise<void> } }
    >;
  }
>;

class Lab {
  readonly executed: string[] = [];

  static async open(): Promise<Lab> {
    const lab = new Lab();
    window.fetch = lab.fetch.bind(lab) as unknown as typeof window.fetch;
    const src = 'http://localhost/lab/extensions/jupyter-slurm-lab/static/lab_page.js';
    Object.defineProperty(document, 'currentScript', { value: { src }, configurable: true });
    jest.resetModules();
    jest.requireActual(SCRIPT);
    const { _JUPYTERLAB: loaded } = window as unknown as { _JUPYTERLAB: Loaded };
    const container = loaded['jupyter-slurm-lab'];
    const share = (module: unknown): unknown => {
      return { '1.0.0': { get: () => Promise.resolve(() => module) } };
    };
    container?.init({
      '@lumino/widgets': share({ Widget }),
      '@jupyterlab/translation': share({ ITranslator: {} })
    });
    const factory = await container?.get();
    await factory?.().default.activate(lab.app(), { languageCode: 'en' });
    await Promise.resolve();
    return lab;
  }

  private app(): unknown {
    return {
      restored: Promise.resolve(),
      commands: {
        hasCommand: () => true,
        isVisible: () => true,
        execute: (id: string) => Promise.resolve(this.executed.push(id))
      },
      shell: { add: (widget: Widget) => document.body.append(widget.node) }
    };
  }

  private fetch(): Promise<unknown> {
    const headers = new Map([['Date', new Date(NOW_S * 1000).toUTCString()]]);
    return Promise.resolve({ headers, json: () => Promise.resolve(FACTS) });
  }
}

function bar(): HTMLElement {
  const [found] = document.querySelectorAll<HTMLElement>('[role=group][aria-label="Slurm job"]');
  if (found === undefined) {
    throw new Error('the bar is missing');
  }
  return found;
}

function shown(): string[] {
  const parts = [...bar().children] as HTMLElement[];
  return parts.filter(part => !part.hidden).map(part => part.textContent ?? '');
}

function press(label: string): void {
  [...bar().querySelectorAll('button')].find(one => one.textContent === label)?.click();
}

beforeEach(() => {
  jest.useFakeTimers();
  document.body.innerHTML = '';
});

afterEach(() => {
  jest.useRealTimers();
});

test('the bar shows the job and its remaining time', async () => {
  await Lab.open();
  expect(shown()).toEqual(['fit', 'n1', '2 GPUs', '1 h 20 min left', 'End']);
});

test('End saves all documents and shuts JupyterLab down', async () => {
  const lab = await Lab.open();
  press('End');
  await jest.advanceTimersByTimeAsync(0);
  expect(lab.executed).toEqual(['docmanager:save-all', 'filemenu:shutdown']);
});
