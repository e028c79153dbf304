import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { ServerConnection } from '@jupyterlab/services';
import type { FileEntry } from '../../wire';
import { base64Of, bytesOf, textOf } from '../bytes';
import { ClusterDrive } from '../drive';

type Args = Record<string, unknown>;

/** A cluster with a folder /d of these base64 files. It records calls. */
function cluster(files: Record<string, string>): { drive: ClusterDrive; asked: [string, Args][] } {
  const asked: [string, Args][] = [];
  const entry = (name: string, kind: FileEntry['kind'] = 'file'): FileEntry => ({
    name,
    kind,
    size_bytes: 1,
    modified_s: 1.5,
    writable: true
  });
  const answer = (name: string, args: Args): unknown => {
    const path = args.path as string;
    const file = path.slice(path.lastIndexOf('/') + 1);
    switch (name) {
      case 'list_folder':
        return { folder: entry('d', 'folder'), entries: Object.keys(files).map(n => entry(n)) };
      case 'file_entry':
        return entry(file, path === '/d' ? 'folder' : 'file');
      case 'read_file':
        return { entry: entry(file), content: files[file] };
      default:
        return entry(file, name === 'make_folder' ? 'folder' : 'file');
    }
  };
  const model = {
    clusters: [],
    call: <T>(name: string, args: Args = {}): Promise<T> => {
      asked.push([name, args]);
      return Promise.resolve(answer(name, args) as T);
    }
  };
  const types = { getFileTypesForPath: () => [] } as Pick<DocumentRegistry, 'getFileTypesForPath'>;
  const settings = {} as ServerConnection.ISettings;
  return { drive: new ClusterDrive(model, types, settings), asked };
}

const text = (value: string): string => base64Of(new TextEncoder().encode(value));

test('bytes, base64 and text convert into each other, even if large or with a BOM', () => {
  const bytes = Uint8Array.from({ length: 100_000 }, (_, at) => at % 256);
  expect(bytesOf(base64Of(bytes))).toEqual(bytes);
  expect(textOf(text('\ufeffü'))).toBe('\ufeffü');
  expect(textOf(base64Of(bytes))).toBeNull();
});

test('a file is text if possible and base64 otherwise, and a notebook is parsed', async () => {
  const { drive } = cluster({ a: text('ü\r\n'), b: '/w==', n: text('{"cells":[],"metadata":{}}') });
  const a = await drive.get('here/d/a');
  expect([a.format, a.content, a.path, a.last_modified]).toEqual([
    'text',
    'ü\r\n',
    'here/d/a',
    '1970-01-01T00:00:01.500Z'
  ]);
  expect(await drive.get('here/d/b')).toMatchObject({ format: 'base64', content: '/w==' });
  const notebook = await drive.get('here/d/n', { type: 'notebook' });
  expect(notebook).toMatchObject({ format: 'json', content: { cells: [] } });
  await expect(drive.get('here/d/b', { format: 'text' })).rejects.toThrow('not UTF-8');
  expect(await drive.get('here/d/a', { content: false })).toMatchObject({ content: null });
});

test("a folder's entries have full paths", async () => {
  const { drive, asked } = cluster({ "it's\n": '' });
  const listed = await drive.get('here/d');
  expect(listed.type).toBe('directory');
  expect((listed.content as { path: string }[]).map(one => one.path)).toEqual(["here/d/it's\n"]);
  expect(asked[0]).toEqual(['file_entry', { path: '/d', cluster: 'here' }]);
});

test('an upload in parts arrives as one file, and a new upload starts over', async () => {
  const { drive, asked } = cluster({});
  for (const [chunk, part] of [
    [1, 'lost'],
    [1, 'a'],
    [2, 'b'],
    [-1, 'c']
  ] as const) {
    await drive.save('here/d/x', { type: 'file', format: 'base64', chunk, content: text(part) });
  }
  expect(asked).toEqual([['write_file', { path: '/d/x', cluster: 'here', content: text('abc') }]]);
});

test('a new file or folder avoids existing names', async () => {
  const { drive, asked } = cluster({
    'untitled.txt': '',
    'untitled folder': '',
    'f.tar.gz': 'AA=='
  });
  const made = await drive.newUntitled({ path: 'here/d', type: 'file', ext: '.txt' });
  expect(made.name).toBe('untitled1.txt');
  await drive.newUntitled({ path: 'here/d', type: 'directory' });
  expect(asked.at(-1)).toEqual(['make_folder', { path: '/d/untitled folder1', cluster: 'here' }]);
  await drive.copy('here/d/f.tar.gz', 'here/d');
  expect(asked.at(-1)?.[1]).toMatchObject({ path: '/d/f.tar-Copy1.gz', content: 'AA==' });
});
