// Notebooks, names and bundles from an attacker who wants to run code in the page.
import { NotebookModel } from '@jupyterlab/notebook/lib/model';
import type { ICodeCellModel } from '@jupyterlab/cells';
import {
  RenderMimeRegistry,
  standardRendererFactories,
  type IOutputModel
} from '@jupyterlab/rendermime';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents, ServerConnection } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { LOGIN_MIME, LoginNotice } from '../card/login';
import { JobCard, MIME } from '../card/renderer';
import { base64Of, textOf } from '../files/bytes';
import { ClusterDrive } from '../files/drive';
import { BlockView, NearnessContext } from '../job/blocks';
import { passive } from '../job/passive';
import type { FileEntry } from '../wire';
import { connection, FakeModel, job } from './fakes';
import { active, Hostile } from './hostile';

const COUNT = 200;
const BATCH = 50;
const harmed = jest.fn();

beforeAll(() => {
  Object.assign(globalThis, { harmed });
  // JupyterLab reads Yjs types before they belong to a document, and cannot read some cells. Ignore
  // the warnings.
  Object.assign(console, { warn: () => undefined, error: () => undefined });
});

afterEach(() => {
  document.body.replaceChildren();
  expect(harmed).not.toHaveBeenCalled();
  expect(Object.keys(Object.prototype)).toEqual([]);
});

const entry = (name: string, kind: FileEntry['kind'] = 'file'): FileEntry => ({
  name,
  kind,
  size_bytes: 1,
  modified_s: 1,
  writable: true
});

/** A cluster with one file; `held` is its text. */
function cluster(held: { text: string; entries?: FileEntry[] }): ClusterDrive {
  const model = {
    clusters: [],
    call: <T,>(name: string, { content }: Record<string, unknown> = {}): Promise<T> => {
      if (name === 'write_file') {
        held.text = textOf(content as string) ?? '';
      }
      const answers: Record<string, unknown> = {
        read_file: { entry: entry('a.ipynb'), content: base64(held.text) },
        list_folder: { folder: entry('d', 'folder'), entries: held.entries }
      };
      const kind = held.entries === undefined ? 'file' : 'folder';
      return Promise.resolve((answers[name] ?? entry('a.ipynb', kind)) as T);
    }
  };
  const types = {
    getFileTypesForPath: (path: string) =>
      path.endsWith('.ipynb')
        ? [{ contentType: 'notebook', fileFormat: 'json', mimeTypes: [] }]
        : []
  } as unknown as Pick<DocumentRegistry, 'getFileTypesForPath'>;
  return new ClusterDrive(model, types, {} as ServerConnection.ISettings);
}

function base64(text: string): string {
  return base64Of(new TextEncoder().encode(text));
}

/** JupyterLab's own model of a notebook; null if JupyterLab cannot read it. */
function opened(content: unknown): NotebookModel | null {
  const model = new NotebookModel();
  try {
    model.fromJSON(content as never);
    return [...model.cells].every(cell => (cell as unknown) !== undefined) ? model : null;
  } catch {
    return null;
  }
}

/** The outputs that JupyterLab would trust. */
function trustedIn(notebook: NotebookModel): unknown[] {
  const cells = [...notebook.cells].filter(cell => cell.type === 'code') as ICodeCellModel[];
  return cells
    .flatMap(cell => outputsOf(cell).map(output => ({ cell, output })))
    .filter(({ cell, output }) => cell.trusted || output.trusted)
    .map(({ output }) => output.data);
}

function outputsOf({ outputs }: ICodeCellModel): IOutputModel[] {
  return Array.from({ length: outputs.length }, (_, at) => outputs.get(at));
}

const rendermime = new RenderMimeRegistry({ initialFactories: standardRendererFactories });

/** Return the active elements in the displayed outputs of the notebook. */
async function activeIn(notebook: NotebookModel): Promise<string[]> {
  const cells = [...notebook.cells].filter(cell => cell.type === 'code') as ICodeCellModel[];
  const found: string[] = [];
  for (const output of cells.flatMap(outputsOf)) {
    const type = rendermime.preferredMimeType(output.data, output.trusted ? 'any' : 'ensure');
    if (type !== undefined) {
      const renderer = rendermime.createRenderer(type);
      await renderer.renderModel(output).catch(() => undefined);
      found.push(...active(renderer.node));
      renderer.dispose();
    }
  }
  return found;
}

/** Check that the drive rejects an invalid notebook. */
function refusal(error: unknown): null {
  expect(error).toMatchObject({ response: { status: 400 } });
  expect(String(error)).toContain('is not in notebook format 4');
  return null;
}

test('a notebook from a cluster is never trusted and has no widgets', async () => {
  const hostile = new Hostile(13);
  let [whole, refused, believed, widgets] = [0, 0, 0, 0];
  for (let number = 0; number < COUNT; number += 1) {
    const text = hostile.notebook();
    const held = { text };
    const drive = cluster(held);
    const handed: unknown[] = [];
    const texts = new Set<unknown>();
    /**
     * The same text is opened only once, since JupyterLab's model takes most of this test's time.
     */
    const handOver = (content: unknown): void => {
      if (content === undefined || !texts.has(content)) {
        handed.push(read(content));
      }
      texts.add(content);
    };
    for (const [path, options] of [
      ['c/d/a.ipynb', { type: 'notebook', format: 'json' }],
      ['c/d/a.txt', { type: 'notebook', format: 'text' }],
      ['c/d/a.ipynb', { type: 'file', format: 'text' }],
      ['c/d/a.ipynb', { type: 'file', format: 'json' }]
    ] as [string, Contents.IFetchOptions][]) {
      const got = await drive.get(path, { ...options, content: true }).catch(refusal);
      refused += got === null ? 1 : 0;
      expect(JSON.stringify(got?.content ?? '').length).toBeLessThan(2 * text.length + 1_000);
      if (got?.format === 'json') {
        handed.push(got.content); // only a parsed object can have a `__proto__` field
      } else {
        handOver(got?.content);
      }
    }
    const elsewhere = opened(read(text));
    if (elsewhere !== null) {
      believed += elsewhere.cells.get(0).trusted ? 1 : 0;
      widgets += elsewhere.getMetadata('widgets') === undefined ? 0 : 1;
      const content = elsewhere.toJSON();
      await drive.save('c/d/a.ipynb', { type: 'notebook', format: 'json', content });
      handOver(held.text);
    }
    const upload = { type: 'file', format: 'base64', content: base64(text) } as const;
    if ((await drive.save('c/d/a.ipynb', upload).catch(refusal)) !== null) {
      handOver(held.text);
    }
    const all = handed.map(opened);
    // The test requested the first two as notebooks.
    for (const one of all.slice(0, 2)) {
      expect(one?.getMetadata('widgets')).toBeUndefined();
    }
    const notebooks = all.filter(one => one !== null);
    whole += notebooks.length;
    expect(notebooks.flatMap(trustedIn)).toEqual([]);
    expect(notebooks[0] === undefined ? [] : await activeIn(notebooks[0])).toEqual([]);
    for (const notebook of [...notebooks, ...(elsewhere === null ? [] : [elsewhere])]) {
      notebook.dispose();
    }
  }
  // The inputs are relevant: JupyterLab reads most of them, and would trust many of them without
  // the drive.
  expect(whole).toBeGreaterThan(COUNT);
  expect(refused).toBeGreaterThan(COUNT / 20);
  expect(believed).toBeGreaterThan(COUNT / 4);
  expect(widgets).toBeGreaterThan(COUNT / 6);
}, 900_000);

function read(text: unknown): unknown {
  try {
    return JSON.parse(text as string);
  } catch {
    return null;
  }
}

test('a file name cannot lead to another folder or hide other files', async () => {
  const hostile = new Hostile(14);
  const names = Array.from({ length: COUNT }, () => hostile.name());
  const entries = names.map(name => ({
    ...entry(name),
    modified_s: hostile.of([0, -1, 1e300, Number.NaN]),
    kind: hostile.of(['file', 'folder', 'other'] as const)
  }));
  const listed = await cluster({ text: '', entries }).get('c/d');
  const shown = listed.content as Contents.IModel[];
  expect(shown.map(one => one.name)).toEqual(
    names.filter(name => !/^\.{0,2}$/.test(name) && !name.includes('/'))
  );
  expect(shown.length).toBeGreaterThan(COUNT / 10);
  expect(shown.every(one => one.path === `c/d/${one.name}`)).toBe(true);
});

test('a bundle only names a job or a cluster, and everything else is text', async () => {
  const hostile = new Hostile(15);
  const ids = ['a2b4c6d7', 'a2b4c6d7\n', '../a2b4c6', 'A2B4C6D7', '__proto__', 'zzzzzzzz'];
  for (let number = 0; number < COUNT; number += BATCH) {
    const model = new FakeModel();
    model.freshness = { asOf: 1, problem: null };
    const [name, why, notebook] = [hostile.name(), hostile.text(), hostile.text()];
    model.put(job({ name, why, notebook, nodes: [hostile.name()], partition: hostile.name() }));
    model.connections = new Map([['arandu', connection({ state: 'login-needed' })]]);
    const cards = Array.from({ length: BATCH }, () => {
      const card = new (hostile.of([JobCard, LoginNotice]))(model, new CommandRegistry(), null);
      Widget.attach(card, document.body);
      const said = hostile.chance() < 0.3 ? hostile.json() : hostile.bundle();
      const data = JSON.parse(hostile.written(said)) as Record<string, unknown> | null;
      const id = hostile.chance() < 0.7 ? hostile.of(ids) : hostile.name();
      const names = { v: 1, id, cluster: hostile.of(['arandu', hostile.name()]), name };
      const bundle = {
        ...(typeof data === 'object' ? data : {}),
        [MIME]: names,
        [LOGIN_MIME]: names
      };
      void card.renderModel({ data: bundle, metadata: {}, trusted: false } as never);
      return card;
    });
    MessageLoop.flush();
    await Promise.all(cards.map(async card => card.renderPromise));
    expect(new Set(model.seen)).toEqual(
      new Set(['a2b4c6d7', 'zzzzzzzz'].filter(id => model.seen.includes(id)))
    );
    expect(active(document.body)).toEqual([]);
    expect(document.querySelectorAll('a, img, form, [data-commandlinker-command]')).toHaveLength(0);
    for (const card of cards) {
      expect(card.node.textContent?.length).toBeLessThan(1_000_000);
      card.dispose();
    }
  }
}, 300_000);

test("a job's output has no active content, requests or links", async () => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  const hostile = new Hostile(16);
  const shows = passive(rendermime);
  let shown = 0;
  for (let number = 0; number < COUNT; number += BATCH) {
    const host = document.body.appendChild(document.createElement('div'));
    const root = createRoot(host);
    const blocks = Array.from({ length: BATCH }, (_, key) => ({
      kind: 'display' as const,
      key,
      data: JSON.parse(hostile.written(hostile.bundle())) as Record<string, unknown>,
      metadata: JSON.parse(hostile.written(hostile.bundle())) as Record<string, unknown>,
      displayId: null,
      chars: 0
    }));
    act(() =>
      root.render(
        <NearnessContext.Provider value={{ watch: (_, hear) => (hear(true), () => undefined) }}>
          {blocks.map(block => (
            <BlockView
              key={block.key}
              block={block}
              {...{ wanted: 'all', current: null, length: 0, more: null, rendermime: shows }}
              times={false}
              found={{ runs: [], count: 0 }}
            />
          ))}
        </NearnessContext.Provider>
      )
    );
    await act(() => new Promise<void>(resolve => setTimeout(resolve, 0)));
    shown += host.querySelectorAll('[data-mime-type]').length;
    expect(active(host)).toEqual([]);
    const acts =
      'a, form, button, input, svg, math, [data-commandlinker-command], [class*=jp-Dialog]';
    expect([...host.querySelectorAll(acts)].map(one => one.outerHTML)).toEqual([]);
    const loads = [...host.querySelectorAll('[src]')].map(one => one.getAttribute('src') ?? '');
    expect(loads.filter(src => !src.startsWith('data:image/png;base64,'))).toEqual([]);
    act(() => root.unmount());
    host.remove();
  }
  expect(shown).toBeGreaterThan(COUNT / 4);
}, 300_000);
