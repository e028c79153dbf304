// This user's jobs as a tree, with open and selected lines and actions.
import type { CommandRegistry } from '@lumino/commands';
import {
  useCallback,
  useDeferredValue,
  useMemo,
  useRef,
  useState,
  type JSX,
  type KeyboardEvent
} from 'react';
import { openMenu } from '../commands/menu';
import { argsOf, type Target } from '../commands/targets';
import { isFinal } from '../format';
import { NOTHING } from '../grid/choice';
import { knownS } from '../grid/freshness';
import { Grid } from '../grid/grid';
import { later } from '../later';
import { keyOf } from '../model/rows';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Row } from '../wire';
import { Chosen, Nothing } from './beside';
import { HistoryFoot, useHistory } from './history';
import { usePointed } from './hover';
import { steeringOf } from './menu';
import { LineCell, lineSentence } from './row';
import {
  firstOpen,
  levelOf,
  linesOf,
  listingOf,
  matching,
  targetOf,
  type Line,
  type Listing
} from './rows';
import type { Looks } from './looks';

const HoverCard = later(async () => (await import('./hover_card')).HoverCard);

interface Props {
  model: ISlurmModel;
  commands: CommandRegistry;
  looks: Looks;
  words: string;
  nowS: number;
  /** The number of clicks that closed all groups. */
  collapsed: number;
}

/** Jobs on reachable clusters, and ended jobs from accounting. */
function useListing(
  model: ISlurmModel,
  clusters: readonly string[],
  past: readonly Row[]
): Listing {
  const { rows } = model;
  return useMemo(() => {
    const there = rows.filter(row => row.kind !== 'listed' || clusters.includes(row.cluster));
    return listingOf(new Map([...past, ...there].map(row => [keyOf(row), row])).values());
  }, [rows, clusters, past]);
}

/** Return whether the jobs belong to several clusters. Each job then shows its cluster. */
function isOfSeveral(groups: Iterable<readonly Row[]>): boolean {
  let first: string | undefined;
  for (const rows of groups) {
    first ??= rows[0]?.cluster;
    if (rows.some(({ cluster }) => cluster !== first)) {
      return true;
    }
  }
  return false;
}

export function MyJobs(props: Props): JSX.Element {
  const { model, commands, looks, words, nowS } = props;
  const history = useHistory(model, looks.clusters);
  const listing = useListing(model, looks.clusters, history.jobs);
  const { groups, keyNow } = listing;
  const anyOther = useMemo(() => isOfSeveral(groups.values()), [groups]);
  // jobs of a removed cluster stay in the list
  const several = anyOther && model.clusters.length > 1;
  const asked = useDeferredValue(words).trim();
  const { isOpen, toggle } = useOpen(listing, nowS, asked !== '', props.collapsed);
  const lines = useMemo(() => {
    const found = [...groups].map(([name, rows]) => [name, matching(rows, asked)] as const);
    return linesOf(new Map(found.filter(([, rows]) => rows.length > 0)), listing.tasks, isOpen);
  }, [groups, listing.tasks, asked, isOpen]);
  const [choice, setChoice] = useState(NOTHING);
  const keys = useMemo(() => keysNow(choice.keys, listing), [choice, listing]);
  const chosenRows = useMemo(() => rowsAt(lines, keys), [lines, keys]);
  const keyAt = useCallback((at: number) => lines[at]?.key ?? '', [lines]);
  const list = useRef<HTMLDivElement>(null);
  const { pointed, over } = usePointed(keyAt, list);
  const lineS = (line: Line): number =>
    line.kind === 'job' && !isFinal(line.row.state)
      ? knownS(model.queues.get(line.row.cluster), nowS)
      : nowS;
  const isOld = (line: Line): boolean =>
    lineS(line) !== nowS || (model.freshness.problem !== null && line.kind === 'job');
  const targets = (line: Line): Target[] =>
    (keys.has(line.key) ? chosenRows : rowsOf(line)).map(targetOf);
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === 'Escape') {
      over(null);
      setChoice(NOTHING);
    } else if (event.key === '/') {
      event.preventDefault();
      const body = list.current?.closest('.jp-slurm-SidebarBody');
      body?.querySelector<HTMLInputElement>('.jp-slurm-Filter')?.focus();
    }
  };
  const under = pointed && lines.find(({ key }) => key === keyNow(pointed.key));
  return (
    <div
      className="jp-slurm-Jobs"
      ref={list}
      onKeyDown={onKey}
      onPointerOver={event => over(event.target)}
      onPointerLeave={() => over(null)}
      onFocus={event => {
        // Ignore focus by a click, since a clicked row is already under the pointer.
        over(event.target.matches(':focus-visible') ? event.target : null);
      }}
      onBlur={() => over(null)}
      onPointerDown={() => over(null)}
    >
      <Nothing {...props} any={groups.size > 0} found={lines.length > 0} />
      <Grid
        label={trans.__('My jobs')}
        listing={asked}
        rows={lines}
        keyNow={keyNow}
        branch={line => ({ level: levelOf(line), open: line.open })}
        sentence={line => lineSentence(line, lineS(line), several)}
        cells={line => (
          <LineCell {...{ line, several, toggle }} nowS={lineS(line)} isOld={isOld(line)} />
        )}
        choice={{ ...choice, keys }}
        choose={setChoice}
        isChosenWithAll={line => line.kind !== 'group'}
        onExpand={(line, wanted) => {
          if (line.open === !wanted) {
            toggle(line.key);
          }
        }}
        onOpen={line => {
          if (line.kind === 'job') {
            void commands.execute(CommandIDs.openJob, argsOf([targetOf(line.row)]));
          } else {
            toggle(line.key);
          }
        }}
        onDelete={line => {
          if (targets(line).length > 0) {
            void commands.execute(CommandIDs.cancel, argsOf(targets(line)));
          }
        }}
        onMenu={(line, event) => {
          const [row] = rowsOf(line);
          if (row !== undefined && !event.shiftKey) {
            event.preventDefault();
            event.stopPropagation();
            const place = { x: event.clientX, y: event.clientY };
            openMenu(commands, targets(line), steeringOf(row), place);
          }
        }}
      />
      {pointed !== null && under?.kind === 'job' ? (
        <HoverCard row={under.row} box={pointed.box} model={model} nowS={lineS(under)} />
      ) : null}
      <HistoryFoot history={history} />
      <Chosen rows={chosenRows} commands={commands} />
    </div>
  );
}

/**
 * The open lines: the default, changed by the user's clicks. A search opens heads and notebooks with
 * matches; tasks are not searched.
 */
function useOpen(
  listing: Listing,
  nowS: number,
  searching: boolean,
  collapsed: number
): { isOpen: (key: string, kind: Line['kind']) => boolean; toggle: (key: string) => void } {
  const [turned, setTurned] = useState<ReadonlySet<string>>(new Set());
  const first = firstOpen(nowS).join('\n');
  const [seen, setSeen] = useState(collapsed);
  if (seen !== collapsed) {
    setSeen(collapsed);
    setTurned(new Set(first.split('\n')));
  }
  const now = useMemo(() => keysNow(turned, listing), [turned, listing]);
  const isOpen = useCallback(
    (key: string, kind: Line['kind']) =>
      (searching && kind !== 'job') || first.split('\n').includes(key) !== now.has(key),
    [searching, first, now]
  );
  const { keyNow } = listing;
  const toggle = useCallback(
    (key: string) =>
      setTurned(before => {
        const next = new Set([...before].map(keyNow));
        if (!next.delete(key)) {
          next.add(key);
        }
        return next;
      }),
    [keyNow]
  );
  return { isOpen, toggle };
}

function keysNow(keys: ReadonlySet<string>, { keyNow }: Listing): ReadonlySet<string> {
  return new Set([...keys].map(keyNow));
}

/** Return each job once. An array includes its tasks. */
function rowsAt(lines: readonly Line[], keys: ReadonlySet<string>): Row[] {
  const found = keys.size === 0 ? [] : lines.filter(line => keys.has(line.key));
  const rows = new Set(found.flatMap(rowsOf));
  const arrays = new Set([...rows].map(keyOf));
  return [...rows].filter(
    row => row.kind !== 'listed' || row.array == null || !arrays.has(row.array)
  );
}

/** Return the jobs of a line: one for a job, several for a notebook, none for a head. */
function rowsOf(line: Line): readonly Row[] {
  return line.kind === 'job' ? [line.row] : line.kind === 'notebook' ? line.rows : [];
}
