import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import type { JSX } from 'react';
import { useClock, useNow } from '../clock';
import { useFeed, useResting } from '../grid/feed';
import { WatchingWidget } from '../watching';
import { drawn } from './drawn';
import { NOW_S } from './fakes';

let watched: string[];
let count: number;

/** A source that counts its watchers. */
function opened(name: string): FakeView {
  watched.push(name);
  return new FakeView(name);
}

class FakeView {
  readonly freshness = { asOf: NOW_S, problem: null };
  readonly changed = new Signal<FakeView, void>(this);
  isDisposed = false;

  constructor(private readonly name: string) {}

  wake(): void {
    this.rest();
    watched.push(this.name);
  }

  rest(): void {
    watched = watched.filter(one => one !== this.name);
  }

  dispose(): void {
    this.rest();
  }
}

const openFeed = (): FakeView => opened('feed');
const openLog = (): FakeView => opened('log');

function View(): JSX.Element {
  useClock(Date.now() / 1000 - 10);
  useNow();
  useFeed(openFeed);
  useResting(openLog);
  count += 1;
  return <p />;
}

class Panel extends WatchingWidget {
  protected override look(): void {
    watched = [...new Set([...watched, 'widget'])];
  }

  protected override rest(): void {
    watched = watched.filter(one => one !== 'widget');
  }

  protected override view(): JSX.Element {
    return <View />;
  }
}

/** Return the number of times that the view is drawn in these seconds. */
async function drawnIn(seconds: number): Promise<number> {
  count = 0;
  await drawn(() => jest.advanceTimersByTime(seconds * 1000));
  return count;
}

beforeEach(() => {
  jest.useFakeTimers();
  watched = [];
});

afterEach(() => {
  jest.useRealTimers();
});

test('a hidden widget watches nothing, and its clocks stop', async () => {
  const panel = new Panel();
  await drawn(() => Widget.attach(panel, document.body));
  expect([...watched].sort()).toEqual(['feed', 'log', 'widget']);
  expect(await drawnIn(10)).toBeGreaterThan(0);
  await drawn(() => panel.hide());
  expect(watched).toEqual([]);
  expect(await drawnIn(10)).toBe(0);
  await drawn(() => panel.show());
  expect([...watched].sort()).toEqual(['feed', 'log', 'widget']);
  expect(await drawnIn(10)).toBeGreaterThan(0);
  panel.dispose();
});
