// The live log of a job: blocks of output in a box that follows the end, with search and a filter.
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { CommandRegistry } from '@lumino/commands';
import {
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
  type CSSProperties,
  type JSX
} from 'react';
import { isFinal, stateWord, tone } from '../format';
import { useResting } from '../grid/feed';
import { isSame } from '../messages';
import { stateSign } from '../icons';
import { MOST_CHOICES, ranksOf, tasksOf } from '../tasks';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job, Problem } from '../wire';
import { BlockView, NearnessContext } from './blocks';
import { useFinding } from './finding';
import { useFollowing, useNearness } from './follow';
import { LogBar } from './logbar';
import { NOTHING, textOf, withChunk, type Shown, type Wanted } from './output';
import { Trouble } from '../parts';
import { widthOf } from './times';

/** Bytes to request first, and the maximum number of bytes to keep. */
const FIRST_BYTES = 1024 * 1024;
const MOST_BYTES = 16 * 1024 * 1024;

interface Props {
  job: Job;
  model: ISlurmModel;
  commands: CommandRegistry;
  rendermime: IRenderMimeRegistry;
  download: string;
  /** The task or rank to show; null for the first that failed, or else the first. */
  task: number | null;
  setTask: (task: number) => void;
}

export function LogPane(props: Props): JSX.Element {
  const { job, model, rendermime, task, setTask } = props;
  const [budget, setBudget] = useState(FIRST_BYTES);
  const ranks = job.kind === 'cell' ? job.ranks : 0;
  const all = useMemo(() => (ranks > 1 ? ranksOf(job, ranks) : tasksOf(job)), [job, ranks]);
  // Keep the first choice when another task fails later.
  const first = useRef<number | null>(null);
  // Of several ranks, show rank 0 first, as the cell does.
  first.current ??= ranks > 1 ? 0 : firstOf(all);
  const chosen = task ?? first.current;
  const { shown, ended, problem } = useLog(model, job.id, budget, chosen);
  const [wanted, setWanted] = useState<Wanted>('all');
  const [wrap, setWrap] = useState(true);
  const [timed, setTimed] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const nearness = useNearness(box);
  const { follow, setFollow, scrolled } = useFollowing(box, content);
  const { blocks, since } = shown;
  const times = timed && since > 0;
  const finding = useFinding(shown, wanted, box, setFollow);
  const load = useCallback(() => {
    setFollow(false);
    setBudget(MOST_BYTES);
  }, [setFollow]);
  return (
    <div className="jp-slurm-Log">
      <LogBar
        wanted={wanted}
        setWanted={setWanted}
        wrap={wrap}
        setWrap={setWrap}
        times={since > 0 ? timed : null}
        setTimes={setTimed}
        text={() => blocks.map(block => textOf(block, wanted)).join('')}
        download={chosen === null ? props.download : `${props.download}&task=${chosen}`}
        finding={finding}
        leave={() => box.current?.focus()}
      >
        {chosen === null ? null : (
          <Tasks all={all} ranked={ranks > 1} chosen={chosen} choose={setTask} />
        )}
      </LogBar>
      {problem === null || isSame(problem, model.freshness.problem) ? null : (
        <Trouble {...props} cluster={job.cluster} problem={problem} />
      )}
      <div
        className="jp-slurm-LogText"
        data-wrap={wrap}
        style={times ? gutter(since) : undefined}
        data-follow={follow}
        ref={box}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={trans.__('Output')}
        onScroll={scrolled}
      >
        <div ref={content}>
          {blocks.length === 0 ? (
            <p className="jp-slurm-Empty">{empty(job, ended, problem)}</p>
          ) : null}
          <NearnessContext.Provider value={nearness}>
            {blocks.map(block => (
              <BlockView
                key={block.key}
                block={block}
                wanted={wanted}
                times={times}
                found={finding.search.in(block)}
                current={finding.match?.key === block.key ? finding.match.at : null}
                length={finding.search.text.length}
                more={budget < MOST_BYTES ? load : null}
                rendermime={rendermime}
              />
            ))}
          </NearnessContext.Provider>
        </div>
      </div>
      {follow || blocks.length === 0 ? null : (
        <button className="jp-slurm-Button jp-slurm-ToEnd" onClick={() => setFollow(true)}>
          <span aria-hidden="true">↓ </span>
          {ended ? trans.__('Scroll to end') : trans.__('Follow')}
        </button>
      )}
    </div>
  );
}

/** The width of the widest time, and a space. */
function gutter(since: number): CSSProperties {
  const width = `${widthOf(since, Date.now() / 1000) + 1}ch`;
  return { '--jp-slurm-times': width } as CSSProperties;
}

interface TasksProps {
  all: readonly [index: number, state: string][];
  ranked: boolean;
  chosen: number;
  choose: (task: number) => void;
}

/** The choice of a task or rank. */
function Tasks({ all, ranked, chosen, choose }: TasksProps): JSX.Element {
  const later = all.slice(MOST_CHOICES).filter(([index]) => index === chosen);
  return (
    <select
      aria-label={ranked ? trans.__('Rank') : trans.__('Task')}
      title={ranked ? trans.__('Rank of the job') : trans.__('Task of the array')}
      value={chosen}
      onChange={event => choose(Number(event.currentTarget.value))}
    >
      {[...all.slice(0, MOST_CHOICES), ...later].map(([index, state]) => (
        <option key={index} value={index}>
          {ranked
            ? trans.__('Rank %1', index)
            : trans.__('Task %1 %2', index, `${stateSign(state)} ${stateWord(state)}`)}
        </option>
      ))}
    </select>
  );
}

/** Return the first task that failed, or else the first. */
function firstOf(all: readonly [index: number, state: string][]): number | null {
  return (all.find(([, state]) => tone(state) === 'failed') ?? all[0])?.[0] ?? null;
}

interface Log {
  shown: Shown;
  ended: boolean;
  problem: Problem | null;
}

const NONE: Log = { shown: NOTHING, ended: false, problem: null };

/** Return the output so far. Keep the old output until the new one has arrived. */
function useLog(model: ISlurmModel, jobId: string, budget: number, task: number | null): Log {
  const [log, setLog] = useState<Log>(NONE);
  useEffect(() => {
    setLog(NONE);
  }, [task]);
  const open = useCallback(() => {
    const view = model.log(jobId, budget, task);
    let shown = NOTHING;
    view.chunk.connect((_, chunk) => {
      shown = withChunk(shown, chunk);
      setLog({ shown, ended: chunk.end, problem: null });
    });
    view.changed.connect(() => {
      const { problem } = view.freshness;
      setLog(before => (before.problem === problem ? before : { ...before, problem }));
    });
    return view;
  }, [model, jobId, budget, task]);
  useResting(open);
  return log;
}

function empty(job: Job, ended: boolean, problem: Problem | null): string {
  if (ended) {
    return trans.__('This job wrote no output.');
  }
  if (problem !== null) {
    return trans.__('The output is not available now.');
  }
  if (job.started_s === null && !isFinal(job.state)) {
    return trans.__('Not started yet. Output will appear here.');
  }
  return trans.__('No output yet.');
}
