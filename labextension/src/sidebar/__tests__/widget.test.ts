import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import { drawn } from '../../__tests__/drawn';
import { connection, FakeModel, job, listed, NOW_S } from '../../__tests__/fakes';
import type { Cluster, ConnectionState } from '../../wire';
import { SlurmSidebar } from '../widget';

const MANY = 5_000;
const SEEN_PX = 600;

afterEach(() => {
  document.body.replaceChildren();
  jest.restoreAllMocks();
});

/** Show a sidebar with many running jobs. */
async function opened(more: object = {}): Promise<{ model: FakeModel; sidebar: SlurmSidebar }> {
  jest.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(SEEN_PX);
  const model = Object.assign(new FakeModel(), more);
  model.freshness = { asOf: NOW_S, problem: null };
  for (let at = 0; at < MANY; at += 1) {
    const id = `job${at}`;
    model.jobs.set(id, job({ id, name: id, slurm_id: String(at + 1) }));
  }
  const sidebar = new SlurmSidebar(model, new CommandRegistry());
  Widget.attach(sidebar, document.body);
  while (sidebar.node.querySelector('[role=row]') === null) {
    await drawn(); // this loads the view
  }
  return { model, sidebar };
}

/** Return the rows that change during `act`. */
async function changed(
  sidebar: SlurmSidebar,
  act: () => void
): Promise<ReadonlySet<Element | null>> {
  const rows = new Set<Element | null>();
  const note = (records: MutationRecord[]): void => {
    for (const { target } of records) {
      const element = target instanceof Element ? target : target.parentElement;
      rows.add(element?.closest('[role=row]') ?? null);
    }
  };
  const observer = new MutationObserver(note);
  const all = { attributes: true, characterData: true, childList: true, subtree: true };
  observer.observe(sidebar.node, all);
  await drawn(act);
  await drawn();
  note(observer.takeRecords());
  observer.disconnect();
  return rows;
}

test('the sidebar draws only visible rows of 5,000 jobs, and redraws only changed ones', async () => {
  const { model, sidebar } = await opened();
  const rows = sidebar.node.querySelectorAll('[role=row]');
  expect(rows.length).toBeGreaterThan(10);
  expect(rows.length).toBeLessThan(60);
  const second = rows[2];
  const name = second?.querySelector('bdi')?.textContent ?? '';
  const told = model.jobs.get(name);
  const news = job({ ...told, name: 'other', revision: 2 });
  expect(await changed(sidebar, () => model.put(news))).toEqual(new Set([second]));
  expect(second?.textContent).toContain('other');
});

test('foreign jobs stay while their cluster is lost and disappear at logout', async () => {
  const dispose = jest.fn();
  const { model, sidebar } = await opened({
    listed: [listed('99999')],
    look: () => ({ isDisposed: false, dispose })
  });
  const told = async (state: ConnectionState): Promise<string | null> => {
    await drawn(() => {
      model.connections = new Map([['arandu', connection({ cluster: 'arandu', state })]]);
      model.changed.emit();
    });
    await drawn();
    return sidebar.node.querySelector('[role=row]')?.textContent ?? null;
  };
  expect(await told('lost')).toContain('Running 5,000');
  expect(await told('open')).toContain('Running 5,001');
  expect(await told('lost')).toContain('Running 5,001');
  expect(dispose).not.toHaveBeenCalled();
  expect(await told('closed')).toContain('Running 5,000');
  expect(dispose).toHaveBeenCalled();
});

test("a cluster's problem is shown in its line if there are several clusters, else below the line", async () => {
  const { model, sidebar } = await opened();
  const problem = { code: 'x', message: 'No answer', hint: null, detail: null };
  const told = async (...names: string[]): Promise<(string | null)[]> => {
    await drawn(() => {
      model.clusters = names.map(name => ({ name, problem: null }) as Cluster);
      const far = connection({ cluster: 'far', state: 'closed' });
      model.connections = new Map([
        ['far', { ...far, problem: { ...problem, option: null, transient: true } }]
      ]);
      model.changed.emit();
    });
    await drawn();
    const found = sidebar.node.querySelectorAll('.jp-slurm-Cluster > *');
    return [...found].map(one => one.textContent);
  };
  expect(await told('far', 'near')).toEqual(['!farNo answerConnect', '○nearnot connectedConnect']);
  expect(await told('far')).toEqual([expect.stringMatching(/^!far.*Connect$/), 'No answer']);
});
