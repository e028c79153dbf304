// A block of a log. It has colours and matches when it is near the visible part, and is plain text
// otherwise.
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';
import {
  createContext,
  memo,
  useContext,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  type CSSProperties,
  type JSX,
  type RefObject
} from 'react';
import { trans } from '../translation';
import { bytes } from './words';
import { runsOf, textOf, type Block, type DisplayBlock, type Run, type TextBlock } from './output';
import type { Wanted } from './output';
import type { Found } from './search';
import { pieces, type Piece } from './pieces';
import { linesOf } from './times';

/** Calls `hear` when an element becomes nearly visible, and when it no longer is. */
export interface Nearness {
  watch(element: Element, hear: (near: boolean) => void): () => void;
}

export const NearnessContext = createContext<Nearness | null>(null);

interface Props {
  block: Block;
  wanted: Wanted;
  /** True to show the time of each line. */
  times: boolean;
  found: Found;
  /** The current match, if it is in this block. */
  current: number | null;
  /** The length of a match. */
  length: number;
  /** Loads more of the omitted output; null if this is not possible. */
  more: (() => void) | null;
  rendermime: IRenderMimeRegistry;
}

export const BlockView = memo(function BlockView(props: Props): JSX.Element | null {
  const { block } = props;
  switch (block.kind) {
    case 'gap':
      return <Gap {...props} bytes={block.bytes} />;
    case 'display':
      return props.wanted === 'all' ? <Display {...props} block={block} /> : null;
    case 'text':
      return <Text {...props} block={block} />;
    case 'cell':
      return <h3 className="jp-slurm-LogCell">{trans.__('Cell %1', String(block.cell + 1))}</h3>;
  }
});

function Gap({ bytes: count, more }: Props & { bytes: number }): JSX.Element {
  return (
    <p className="jp-slurm-LogGap">
      {trans.__('%1 hidden. Download the full log.', bytes(count))}{' '}
      {more === null ? null : (
        <button className="jp-slurm-Button" onClick={more}>
          {trans.__('Load more')}
        </button>
      )}
    </p>
  );
}

function Text(props: Props & { block: TextBlock }): JSX.Element | null {
  const { block, wanted, times, found, current, length } = props;
  const host = useRef<HTMLPreElement>(null);
  const near = useNear(host);
  const runs = runsOf(block, wanted);
  if (runs.length === 0) {
    return null;
  }
  const before = (at: number): number =>
    found.runs.slice(0, at).reduce((sum, one) => sum + one.length, 0);
  return (
    <pre
      ref={host}
      className="jp-slurm-LogBlock"
      style={{ '--jp-slurm-lines': block.lines } as CSSProperties}
    >
      {near || current !== null
        ? runs.map((run, at) => (
            <RunView
              key={at}
              run={run}
              times={times}
              starts={found.runs[at] ?? []}
              length={length}
              current={current === null ? null : current - before(at)}
            />
          ))
        : textOf(block, wanted)}
    </pre>
  );
}

interface Marks {
  starts: readonly number[];
  length: number;
  current: number | null;
}

function RunView({ run, times, ...marks }: Marks & { run: Run; times: boolean }): JSX.Element {
  return (
    <span className="jp-slurm-LogRun" data-source={run.source}>
      {times ? (
        linesOf(run, Date.now() / 1000).map(({ time, ...line }, key) => (
          <span key={key} className="jp-slurm-LogLine" data-time={time}>
            <Pieces {...line} {...marks} />
          </span>
        ))
      ) : (
        <Pieces style={run.style} text={run.text} from={0} {...marks} />
      )}
    </span>
  );
}

interface TextProps extends Marks {
  text: string;
  /** The position of the text in its run. */
  from: number;
}

function Pieces({
  style,
  text,
  from: first,
  ...marks
}: TextProps & { style: string }): JSX.Element {
  const { starts, length } = marks;
  let at = first;
  return (
    <>
      {pieces(style, text).map((piece, key) => {
        const from = at;
        at += piece.text.length;
        const inside = starts.some(start => start < at && start + length > from) ? (
          <Marked text={piece.text} from={from} {...marks} />
        ) : (
          piece.text
        );
        return <Coloured key={key} piece={piece} inside={inside} />;
      })}
    </>
  );
}

function Coloured({ piece, inside }: { piece: Piece; inside: JSX.Element | string }): JSX.Element {
  const { className, color, background } = piece;
  if (className === '' && color === null && background === null) {
    return <>{inside}</>;
  }
  const style = { color: color ?? undefined, backgroundColor: background ?? undefined };
  return (
    <span className={className} style={style}>
      {inside}
    </span>
  );
}

function Marked({ text, from, starts, length, current }: TextProps): JSX.Element {
  const parts: JSX.Element[] = [];
  let at = 0;
  starts.forEach((start, number) => {
    const begin = Math.max(start - from, at);
    const end = Math.min(start - from + length, text.length);
    if (begin < end) {
      parts.push(
        <span key={`${begin}t`}>{text.slice(at, begin)}</span>,
        <mark key={begin} aria-current={number === current ? 'true' : undefined}>
          {text.slice(begin, end)}
        </mark>
      );
      at = end;
    }
  });
  return (
    <>
      {parts}
      {text.slice(at)}
    </>
  );
}

/** A figure or table, by a renderer of passive.ts. */
function Display({ block, rendermime }: Props & { block: DisplayBlock }): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const near = useNear(host);
  const [seen, setSeen] = useState(false);
  const [unknown, setUnknown] = useState(false);
  const { data, metadata } = block;
  if (near && !seen) {
    setSeen(true);
  }
  // Lumino detaches a widget while its element is still in the page.
  useLayoutEffect(() => {
    if (!seen || host.current === null) {
      return undefined;
    }
    const model = rendermime.createModel({
      data: data as ReadonlyPartialJSONObject,
      metadata: metadata as ReadonlyPartialJSONObject,
      trusted: false
    });
    const type = rendermime.preferredMimeType(model.data, 'ensure');
    setUnknown(type === undefined);
    if (type === undefined) {
      return undefined;
    }
    const renderer = rendermime.createRenderer(type);
    Widget.attach(renderer, host.current);
    renderer.renderModel(model).catch(() => setUnknown(true));
    return () => renderer.dispose();
  }, [seen, data, metadata, rendermime]);
  return (
    <div className="jp-slurm-LogDisplay">
      <div ref={host} />
      {unknown ? (
        <p className="jp-slurm-Quiet">
          {trans.__('Cannot show this output safely: %1', Object.keys(data).join(', '))}
        </p>
      ) : null}
    </div>
  );
}

function useNear(host: RefObject<Element>): boolean {
  const nearness = useContext(NearnessContext);
  const [near, setNear] = useState(false);
  useEffect(
    () => (host.current === null ? undefined : nearness?.watch(host.current, setNear)),
    [nearness, host]
  );
  return near;
}
