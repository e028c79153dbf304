// My jobs in groups: which are open, which are chosen, and what is done to those.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import { useMemo, useRef, useState, type JSX } from 'react';
import { argsOf, isTask } from '../commands/targets';
import { isFinal } from '../format';
import { useKeptFocus } from '../grid/focus';
import { CommandIDs, type ISlurmModel } from '../tokens';
import type { QueueEntry } from '../wire';
import { JobGroup } from './group';
import { HistoryFoot, useHistory, type History } from './history';
import { onKey, onKeyUp } from './keys';
import type { RowsProps } from './row';
import { grouped, GROUPS, keysNow, matching, targetOf, type GroupName, type JobRow } from './rows';
import type { News, Queues } from './queues';

interface Props {
  model: ISlurmModel;
  commands: CommandRegistry;
  trans: TranslationBundle;
  queues: Queues;
  words: string;
  news: News;
}

/** What the queue has told of jobs that have ended; accounting knows more of the same ones. */
function pastOf(cluster: string, queues: Queues, accounted: History['entries']): QueueEntry[] {
  const told = new Map(queues.ended(cluster));
  for (const entry of accounted.get(cluster) ?? []) {
    told.set(entry.slurm_id, entry);
  }
  return [...told.values()];
}

export function MyJobs(props: Props): JSX.Element {
  const { model, commands, trans, queues, words, news } = props;
  const [open, toggle] = useSet<GroupName>(['running', 'waiting', 'today']);
  const list = useRef<HTMLDivElement>(null);
  const history = useHistory(model, queues.clusters);
  const groups = useMemo(() => {
    const entries = queues.clusters.map(one => [one, queues.entries(one).values()] as const);
    const past = queues.clusters.map(one => [one, pastOf(one, queues, history.entries)] as const);
    return grouped(model.jobs.values(), new Map(entries), new Map(past), news.atS);
  }, [news, model, queues, history.entries]);
  const keys = useMemo(() => keysNow(GROUPS.flatMap(name => groups[name])), [groups]);
  const [chosen, choose, chooseNone] = useSet<string>([], keys);
  const [opened, toggleOpened] = useSet<string>([], keys);
  const [lastFocused, setFocused] = useState('');
  const focused = keys.get(lastFocused) ?? lastFocused;
  useKeptFocus(list, ({ dataset: { key = '' } }) => {
    const rows = [...(list.current?.querySelectorAll<HTMLElement>('.jp-slurm-RowMain') ?? [])];
    // In another group now, or gone.
    const same = rows.find(row => row.dataset.key === (keys.get(key) ?? key));
    return same ?? rows.find(row => row.tabIndex === 0);
  });
  const shown = GROUPS.map(name => ({ name, rows: matching(groups[name], words, trans) }));
  const isOpen = (name: GroupName): boolean => open.has(name) || words !== '';
  const seen = new Map<string, JobRow>();
  for (const row of shown.flatMap(({ name, rows }) => (isOpen(name) ? rows : []))) {
    seen.set(row.key, row);
    for (const task of opened.has(row.key) ? row.tasks : []) {
      seen.set(task.key, task);
    }
  }
  const chosenRows = [...chosen].flatMap(key => seen.get(key) ?? []);
  const shared: RowsProps = {
    commands,
    trans,
    chosen,
    choose,
    current: seen.has(focused) ? focused : ([...seen.keys()][0] ?? null),
    setCurrent: setFocused,
    opened,
    toggleOpened,
    targets: row => (chosen.has(row.key) ? chosenRows : [row]).map(targetOf)
  };
  const actions = {
    choose,
    chooseNone,
    cancel: (key: string) => {
      const row = seen.get(key);
      if (row !== undefined) {
        void commands.execute(CommandIDs.cancel, argsOf(shared.targets(row)));
      }
    },
    open: (key: string, wanted: boolean) => {
      if (opened.has(key) !== wanted) {
        toggleOpened(key);
      }
    },
    filter: () => {
      const body = list.current?.closest('.jp-slurm-SidebarBody');
      body?.querySelector<HTMLInputElement>('.jp-slurm-Filter')?.focus();
    }
  };
  return (
    <div
      className="jp-slurm-Groups"
      ref={list}
      onKeyDown={event => {
        onKey(event, actions);
      }}
      onKeyUp={onKeyUp}
    >
      <All rows={[...seen.values()]} commands={commands} trans={trans} />
      <Nothing {...props} groups={groups} found={shown.some(({ rows }) => rows.length > 0)} />
      {shown
        .filter(({ name, rows }) => rows.length > 0 || (name === 'earlier' && words === ''))
        .map(({ name, rows }) => (
          <JobGroup
            key={name}
            title={titles(trans)[name]}
            rows={rows}
            open={isOpen(name)}
            toggle={() => {
              toggle(name);
            }}
            {...shared}
          >
            {name === 'earlier' ? <HistoryFoot history={history} trans={trans} /> : null}
          </JobGroup>
        ))}
      <Chosen rows={chosenRows} commands={commands} trans={trans} clear={chooseNone} />
    </div>
  );
}

function titles(trans: TranslationBundle): Record<GroupName, string> {
  return {
    running: trans.__('Running'),
    waiting: trans.__('Waiting'),
    today: trans.__('Ended today'),
    earlier: trans.__('Earlier')
  };
}

interface NothingProps extends Props {
  groups: Record<GroupName, JobRow[]>;
  found: boolean;
}

/** What to do next where there is no job, or none that was looked for. */
function Nothing({ model, commands, trans, words, groups, found }: NothingProps) {
  if (found || model.freshness.asOf === null) {
    return null;
  }
  if (words !== '' && GROUPS.some(name => groups[name].length > 0)) {
    return <p className="jp-slurm-Empty">{trans.__('None of my jobs has “%1”.', words)}</p>;
  }
  return (
    <div className="jp-slurm-Empty">
      <p>{trans.__('No jobs yet. Put %1 over a cell, or write one here.', '%%slurm')}</p>
      {commands.hasCommand(CommandIDs.submit) ? (
        <button
          className="jp-slurm-Button"
          onClick={() => void commands.execute(CommandIDs.submit)}
        >
          {trans.__('Submit a job…')}
        </button>
      ) : null}
    </div>
  );
}

/** What is done to all that are shown and have not ended, where these are several. */
function All({ rows, commands, trans }: Omit<ChosenProps, 'clear'>): JSX.Element | null {
  const live = rows.filter(row => !isFinal(row.state) && !isTask(targetOf(row)));
  return live.length < 2 || !commands.hasCommand(CommandIDs.cancel) ? null : (
    <button
      className="jp-slurm-Link"
      onClick={() => void commands.execute(CommandIDs.cancel, argsOf(live.map(targetOf)))}
    >
      {trans._n('Cancel all shown (%1)…', 'Cancel all shown (%1)…', live.length)}
    </button>
  );
}

interface ChosenProps {
  rows: readonly JobRow[];
  commands: CommandRegistry;
  trans: TranslationBundle;
  clear: () => void;
}

/** What is done to all that are chosen. */
function Chosen({ rows, commands, trans, clear }: ChosenProps): JSX.Element | null {
  if (rows.length === 0) {
    return null;
  }
  const parts: [string, readonly JobRow[]][] = [
    [CommandIDs.hold, rows.filter(row => !row.held)],
    [CommandIDs.release, rows.filter(row => row.held)],
    [CommandIDs.forget, rows],
    [CommandIDs.cancel, rows]
  ];
  const usable = parts
    .map(([id, some]) => ({ id, args: argsOf(some.map(targetOf)) }))
    .filter(({ id, args }) => commands.hasCommand(id) && commands.isEnabled(id, args));
  return (
    <div className="jp-slurm-Chosen" role="group" aria-label={trans.__('Selected jobs')}>
      <span role="status">{trans.__('%1 selected', rows.length)}</span>
      {usable.map(({ id, args }) => (
        <button
          key={id}
          className="jp-slurm-Button"
          onClick={() => void commands.execute(id, args)}
        >
          {commands.label(id, args)}
        </button>
      ))}
      <button className="jp-slurm-Button" onClick={clear}>
        {trans.__('Select none')}
      </button>
    </div>
  );
}

/** A set, what takes something in or out of it, and what empties it. `now`: what has become of some. */
function useSet<T>(
  first: readonly T[],
  now?: ReadonlyMap<T, T>
): readonly [ReadonlySet<T>, (one: T) => void, () => void] {
  const [kept, change] = useState<readonly T[]>(first);
  const asOfNow = (some: readonly T[]): Set<T> => new Set(some.map(one => now?.get(one) ?? one));
  return [
    asOfNow(kept),
    one => {
      change(before => {
        const next = asOfNow(before);
        if (!next.delete(one)) {
          next.add(one);
        }
        return [...next];
      });
    },
    () => {
      change([]);
    }
  ];
}
