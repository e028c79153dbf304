// What the sidebar shows: clusters, then my jobs in groups. A function of the model and of what is
// typed, chosen and opened here.
import {
  addIcon,
  collapseAllIcon,
  listIcon,
  refreshIcon,
  type LabIcon
} from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { ISignal } from '@lumino/signaling';
import { useEffect, useReducer, useState, type JSX } from 'react';
import { moment } from '../format';
import { slurmIcon } from '../icons';
import { said } from '../messages';
import { CommandIDs, type Freshness, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { Welcome } from '../welcome/view';
import { ClusterList } from './clusters';
import { MyJobs } from './jobs';
import type { News, Queues } from './queues';
import '../../style/sidebar.css';

const CLOCK_MS = 15_000;

export interface SidebarProps {
  model: ISlurmModel;
  commands: CommandRegistry;
  queues: Queues;
  changed: ISignal<unknown, void>;
  isSeen: () => boolean;
  /** Asks for all that is shown anew. */
  refresh: () => void;
}

export function SidebarView(props: SidebarProps): JSX.Element {
  const { model, commands, queues } = props;
  const news = useNews(props.changed, props.isSeen);
  const [words, setWords] = useState('');
  const [collapsed, setCollapsed] = useState(0);
  const nowS = news.atS;
  // Jobs of clusters that are no more stay.
  if (model.hasNoCluster && model.jobs.size === 0) {
    return (
      <div className="jp-slurm-SidebarBody">
        <div className="jp-slurm-JobsHead">
          <h2>{trans.__('My jobs')}</h2>
        </div>
        <Welcome model={model} commands={commands} />
      </div>
    );
  }
  return (
    <div className="jp-slurm-SidebarBody">
      <div className="jp-slurm-JobsHead">
        <h2>{trans.__('My jobs')}</h2>
        <Tools
          commands={commands}
          refresh={props.refresh}
          collapse={() => {
            setCollapsed(collapsed + 1);
          }}
        />
      </div>
      <OldNews freshness={model.freshness} nowS={nowS} />
      {model.hasNoCluster ? (
        <Welcome model={model} commands={commands} />
      ) : (
        <ClusterList model={model} queues={queues} commands={commands} nowS={nowS} />
      )}
      <input
        className="jp-slurm-Filter"
        type="search"
        value={words}
        placeholder={trans.__('Filter my jobs ( / )')}
        aria-label={trans.__('Filter my jobs')}
        onChange={event => {
          setWords(event.target.value);
        }}
        onKeyDown={event => {
          if (event.key === 'Escape') {
            setWords('');
          }
        }}
      />
      <MyJobs {...props} words={words} news={news} collapsed={collapsed} />
    </div>
  );
}

interface ToolsProps {
  commands: CommandRegistry;
  refresh: () => void;
  collapse: () => void;
}

/** The toolbar, as those of JupyterLab's own sidebars look. */
function Tools({ commands, refresh, collapse }: ToolsProps): JSX.Element {
  const run = (id: string) => () => void commands.execute(id);
  const tools: [string | null, string, LabIcon, () => void][] = [
    [CommandIDs.submit, trans.__('Submit…'), addIcon, run(CommandIDs.submit)],
    [CommandIDs.openQueue, trans.__('Queue'), listIcon, run(CommandIDs.openQueue)],
    [CommandIDs.openNodes, trans.__('Nodes'), slurmIcon, run(CommandIDs.openNodes)],
    [null, trans.__('Refresh'), refreshIcon, refresh],
    [null, trans.__('Collapse all'), collapseAllIcon, collapse]
  ];
  return (
    <span className="jp-slurm-Tools" role="toolbar" aria-label={trans.__('Jobs')}>
      {tools
        .filter(([id]) => id === null || commands.hasCommand(id))
        .map(([, label, Icon, onClick]) => (
          <button
            key={label}
            className="jp-slurm-IconButton"
            title={label}
            aria-label={label}
            onClick={onClick}
          >
            <Icon.react tag="span" className="jp-slurm-Icon" />
          </button>
        ))}
    </span>
  );
}

interface OldNewsProps {
  freshness: Freshness;
  nowS: number;
}

function OldNews({ freshness, nowS }: OldNewsProps): JSX.Element | null {
  const { problem, asOf } = freshness;
  if (problem === null) {
    return asOf === null ? <p className="jp-slurm-Quiet">{trans.__('Looking…')}</p> : null;
  }
  return (
    <p className="jp-slurm-Problem" role="status" title={problem.detail ?? ''}>
      <span aria-hidden="true">? </span>
      {said(problem.message)}{' '}
      {asOf === null ? null : trans.__('Last update %1', moment(asOf, nowS))}
    </p>
  );
}

function useNews(changed: ISignal<unknown, void>, isSeen: () => boolean): News {
  const [news, next] = useReducer(newsOfNow, null, newsOfNow);
  useEffect(() => {
    const hear = (): void => {
      next();
    };
    changed.connect(hear);
    const clock = window.setInterval(() => {
      if (isSeen()) {
        next();
      }
    }, CLOCK_MS);
    return () => {
      changed.disconnect(hear);
      window.clearInterval(clock);
    };
  }, [changed, isSeen]);
  return news;
}

function newsOfNow(): News {
  return { atS: Date.now() / 1000 };
}
