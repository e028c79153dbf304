// The bar in the page of a lab, which is no part of this extension: node/lab_page.js, as JupyterLab
// on a node loads it.
import { Widget } from '@lumino/widgets';

const SCRIPT = '../../../../jupyter_slurm/node/lab_page.js';
const NOW_S = 1_000_000;
const FACTS = { id: 'abcdefgh', name: 'fit', node: 'n1', gpus: 2, end_s: NOW_S + 4800 };

interface Asked {
  url: string;
  body: unknown;
}
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
  told = { ...FACTS };
  readonly asked: Asked[] = [];
  readonly executed: string[] = [];
  readonly errors: string[] = [];
  answer: { ok: boolean; job: unknown } = { ok: true, job: null };

  /** `path`: that of its page. */
  static async open(path = '/lab'): Promise<Lab> {
    const lab = new Lab();
    window.history.replaceState({}, '', path);
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
      '@jupyterlab/translation': share({ ITranslator: {} }),
      '@jupyterlab/apputils': share({
        InputDialog: {
          getText: () => Promise.resolve({ button: { accept: true }, value: '+1h' })
        },
        showErrorMessage: (_: string, text: string) => Promise.resolve(lab.errors.push(text))
      })
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

  private fetch(url: string | URL, init?: { body: string }): Promise<unknown> {
    const headers = new Map([['Date', new Date(NOW_S * 1000).toUTCString()]]);
    if (String(url).endsWith('/facts.json')) {
      return Promise.resolve({ ok: true, headers, json: () => Promise.resolve(this.told) });
    }
    this.asked.push({ url: String(url), body: JSON.parse(init?.body ?? '') });
    const { ok, job } = this.answer;
    return Promise.resolve({ ok, headers, json: () => Promise.resolve(job) });
  }
}

function bar(): HTMLElement {
  const [found] = document.querySelectorAll<HTMLElement>('[role=group][aria-label="Slurm job"]');
  if (found === undefined) {
    throw new Error('there is no bar');
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

test('the bar says which job it is and how long it has left', async () => {
  await Lab.open();
  expect(shown()).toEqual(['fit', 'n1', '2 GPUs', '1 h 20 min left', 'End']);
});

test('End is what JupyterLab itself does to shut down', async () => {
  const lab = await Lab.open();
  press('End');
  expect(lab.executed).toEqual(['filemenu:shutdown']);
});

test('below the Jupyter that it was started from the lab can have more time', async () => {
  const lab = await Lab.open('/user/ada/jupyter-slurm/lab-proxy/abcdefgh/lab');
  lab.answer.job = { started_s: NOW_S - 2400, limit_s: 10_800 };
  expect(shown().slice(-2)).toEqual(['More time…', 'End']);
  press('More time…');
  await jest.advanceTimersByTimeAsync(1000);
  const url = '/user/ada/jupyter-slurm/api/extend';
  expect(lab.asked).toEqual([{ url, body: { job_id: 'abcdefgh', limit: '+1h' } }]);
  expect(shown()).toContain('2 h 20 min left');
  await jest.advanceTimersByTimeAsync(30_000);
  expect(shown()).toContain('2 h 20 min left'); // the node does not know yet
  lab.told.end_s = NOW_S + 600;
  await jest.advanceTimersByTimeAsync(30_000);
  expect(shown()).toContain('10 min left');
});

test('what Slurm says against more time is shown', async () => {
  const lab = await Lab.open('/jupyter-slurm/lab-proxy/abcdefgh/lab');
  lab.answer = { ok: false, job: { message: 'Slurm does not let you.', hint: 'Ask them.' } };
  press('More time…');
  await jest.advanceTimersByTimeAsync(1000);
  expect(lab.errors).toEqual(['Slurm does not let you. Ask them.']);
  expect(shown()).toContain('1 h 20 min left');
});
