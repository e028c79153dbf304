// The lines of the sidebar: heads, notebooks, jobs. A line is redrawn only if its own text changes.
import { notebookIcon, type LabIcon } from '@jupyterlab/ui-components';
import { memo, type JSX, type MouseEvent } from 'react';
import { isHeld, isRunning, moment, tone, visible } from '../format';
import { kindIcon } from '../icons';
import { stateIcon } from '../job/icons';
import { language, listed, numeral } from '../language';
import { trans } from '../translation';
import { counted } from '../tasks';
import type { Row } from '../wire';
import { dayOf, levelOf, RUNNING, timeOf, WAITING, type Line } from './rows';
import { gpusOf, matters, sentence, taskOf, used } from './words';

const DAY_S = 86_400;

interface Props {
  line: Line;
  nowS: number;
  /** True if the state may be outdated. */
  isOld: boolean;
  /** True if the jobs belong to several clusters. */
  several: boolean;
  toggle: (key: string) => void;
}

/** A line. Its props change only when it must be redrawn. */
export function LineCell({ line, nowS, isOld, several, toggle }: Props): JSX.Element {
  const shared = { id: line.key, level: levelOf(line), open: line.open, isOld, toggle };
  switch (line.kind) {
    case 'group':
      return <HeadCell {...shared} title={titleOf(line.group, nowS)} count={line.count} />;
    case 'notebook':
      return <JobCell {...shared} {...notebookWords(line.path, line.rows, nowS)} />;
    case 'job':
      return <JobCell {...shared} {...jobWords(line.row, nowS, several)} />;
  }
}

function titleOf(group: string, nowS: number): string {
  switch (group) {
    case RUNNING:
      return trans.__('Running');
    case WAITING:
      return trans.__('Waiting');
    case dayOf(nowS):
      return trans.__('Ended today');
    case dayOf(nowS - DAY_S):
      return trans.__('Yesterday');
    default:
      return new Date(`${group}T12:00`).toLocaleDateString(language(), {
        weekday: 'short',
        day: 'numeric',
        month: 'short'
      });
  }
}

/** The line's text for screen readers. */
export function lineSentence(line: Line, nowS: number, several: boolean): string {
  switch (line.kind) {
    case 'group':
      return `${titleOf(line.group, nowS)} ${numeral(line.count)}`;
    case 'notebook': {
      const { name, now } = notebookWords(line.path, line.rows, nowS);
      return listed([visible(name), ...now.split(' · ')]);
    }
    case 'job':
      return listed([sentence(line.row, nowS), several ? visible(line.row.cluster) : '']);
  }
}

interface Words {
  /** The kind of the job; null if unknown. */
  icon: LabIcon | null;
  name: string;
  /** The task; '' if the job is not a task. */
  task: string;
  /** The cluster; '' if it is not shown. */
  cluster: string;
  state: string;
  gpus: string;
  now: string;
  /** The progress in percent; null without a bar. */
  part: number | null;
}

function jobWords(row: Row, nowS: number, several: boolean): Words {
  const part = used(row, nowS);
  return {
    icon: row.kind === 'listed' ? null : kindIcon(row),
    name: row.name,
    task: taskOf(row),
    cluster: several ? row.cluster : '',
    state: isHeld(row.state, row.reason) ? 'HELD' : row.state,
    gpus: isRunning(row.state) ? gpusOf(row) : '',
    now: matters(row, nowS),
    part: part === null ? null : Math.round(part * 100)
  };
}

/**
 * Return the words for a notebook's jobs, with the sign of a failed job, or else of the newest job.
 */
function notebookWords(path: string, rows: readonly Row[], nowS: number): Words {
  const failed = rows.filter(row => tone(row.state) === 'failed');
  const state = (failed[0] ?? rows[0])?.state ?? '';
  const count = trans._n('%1 job', '%1 jobs', rows.length);
  const more =
    failed.length > 0
      ? counted('FAILED', failed.length)
      : moment(rows[0] === undefined ? nowS : timeOf(rows[0]), nowS);
  const name = path.slice(path.lastIndexOf('/') + 1);
  const now = `${count} · ${more}`;
  return { icon: notebookIcon, name, task: '', cluster: '', state, gpus: '', now, part: null };
}

interface Shared {
  id: string;
  level: number;
  open: boolean | null;
  isOld: boolean;
  toggle: (key: string) => void;
}

const HeadCell = memo(function HeadCell(props: Shared & { title: string; count: number }) {
  const { id, open, toggle, title, count } = props;
  return (
    <div role="gridcell" className="jp-slurm-JobCell jp-slurm-GroupHead" onClick={() => toggle(id)}>
      <span className="jp-slurm-Twist" aria-hidden="true">
        {open === true ? '▾' : '▸'}
      </span>
      {title} <span className="jp-slurm-Count">{numeral(count)}</span>
    </div>
  );
});

const JobCell = memo(function JobCell(props: Shared & Words): JSX.Element {
  const { id, level, open, isOld, toggle, icon: Kind, ...words } = props;
  const { name, task, cluster, state, gpus, now, part } = words;
  const shown = visible(name);
  const Sign = stateIcon(state);
  const turn = (event: MouseEvent): void => {
    event.stopPropagation();
    toggle(id);
  };
  return (
    <div role="gridcell" className="jp-slurm-JobCell" data-level={level} data-old={isOld}>
      {Sign === undefined ? null : <Sign.react tag="span" className="jp-slurm-Icon" />}
      {open === null ? null : (
        <button
          className="jp-slurm-Twist"
          tabIndex={-1}
          aria-expanded={open}
          aria-label={trans.__('Tasks of %1', shown)}
          onClick={turn}
          onDoubleClick={event => event.stopPropagation()}
        >
          <span aria-hidden="true">{open ? '▾' : '▸'}</span>
        </button>
      )}
      {Kind === null ? null : <Kind.react tag="span" className="jp-slurm-Icon" />}
      <span className="jp-slurm-Name">
        <bdi>{shown}</bdi>
        {task === '' ? null : <span>{visible(task)}</span>}
      </span>
      <span className="jp-slurm-Matters">
        {cluster === '' ? null : <bdi className="jp-slurm-Of">{visible(cluster)}</bdi>}
        {gpus === '' ? null : <span className="jp-slurm-Gpus">{gpus}</span>}
        <bdi>{visible(now)}</bdi>
      </span>
      {part === null ? null : (
        <span className="jp-slurm-RowBar" aria-hidden="true">
          <span style={{ width: `${part}%` }} />
        </span>
      )}
    </div>
  );
});
