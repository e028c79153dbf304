// An option that the table of commands gets has its field, with nothing more said of it here.
import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import type { Known } from '../cluster';
import { Fields } from '../fields';
import { lineOf, NO_WISHES, wishesOf, type Wishes } from '../form';
import { fieldOf } from '../sentences';
import type { Source } from '../source';

jest.mock('../options', () => {
  const { OPTIONS } = jest.requireActual<typeof import('../options')>('../options');
  const kinds = ['code', 'lab'];
  const reservation = ['--reservation', '-r'];
  return {
    OPTIONS: [...OPTIONS, { name: 'reservation', words: reservation, kinds, help: 'whose nodes' }]
  };
});

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

let root: Root;
let host: HTMLElement;
const change = jest.fn<undefined, [Partial<Wishes>]>();

beforeEach(() => {
  host = document.body.appendChild(document.createElement('div'));
  root = createRoot(host);
});

afterEach(() => {
  act(() => root.unmount());
  host.remove();
});

function labels(kind: Source['kind']): (string | null)[] {
  const known = { partitions: [], images: [], info: null, asOf: null } as unknown as Known;
  act(() =>
    root.render(
      <Fields
        kind={kind}
        offersArray={kind === 'code'}
        kernel={null}
        clusters={[]}
        known={known}
        presets={null}
        wishes={NO_WISHES}
        said={new Map()}
        change={change}
        changeCluster={jest.fn()}
      />
    )
  );
  return [...host.querySelectorAll('fieldset:last-of-type label')].map(one => one.textContent);
}

test('each kind of form has the fields of its own options', () => {
  const plain = ['--reservation'];
  expect(labels('code')).toEqual([
    ...['Launcher', 'Name', 'Array', 'TensorBoard'],
    ...[...plain, 'Other options']
  ]);
  expect(labels('lab').slice(0, 2)).toEqual(['Name', 'End when idle for']);
  expect(labels('lab').slice(-2)).toEqual([...plain, 'Other options']);
  expect(labels('kernel')).toEqual([
    'Launcher',
    'Name',
    'End when disconnected for',
    'Other options'
  ]);
  expect(host.textContent).not.toContain('whose nodes');
});

test('what is typed there is in the line, and what the line says is there', () => {
  expect(labels('code')).toContain('--reservation');
  expect(host.textContent).toContain('whose nodes');
  const wishes = { ...NO_WISHES, reservation: 'mine' };
  expect(lineOf(wishes)).toBe('--reservation mine');
  expect(wishesOf('-r mine')).toEqual({ ...NO_WISHES, reservation: 'mine' });
  expect(fieldOf('reservation')).toBe('reservation');
});
