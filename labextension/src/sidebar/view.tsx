// The view of the sidebar: clusters, and below them this user's jobs in groups.
import {
  addIcon,
  collapseAllIcon,
  CommandToolbarButtonComponent,
  listIcon,
  refreshIcon,
  ToolbarButtonComponent,
  type LabIcon
} from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import { useState, type JSX } from 'react';
import { useNow } from '../clock';
import { moment } from '../format';
import { nodesIcon } from '../icons';
import { useStopped } from '../grid/freshness';
import { FilterField } from '../grid/parts';
import { CommandIDs, type Freshness, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { Welcome } from '../welcome/view';
import { ClusterList } from './clusters';
import { MyJobs } from './jobs';
import type { Looks } from './looks';
import '../../style/sidebar.css';

const CLOCK_MS = 5_000;

interface Props {
  model: ISlurmModel;
  commands: CommandRegistry;
  looks: Looks;
  /** Reload everything that is shown. */
  refresh: () => void;
}

export function SidebarView(props: Props): JSX.Element {
  const { model, commands } = props;
  // Use the last tick, so that a change of one job redraws no other row.
  const nowS = useNow(CLOCK_MS);
  const rowsS = useStopped(model.freshness.problem !== null, nowS);
  const [words, setWords] = useState('');
  const [collapsed, setCollapsed] = useState(0);
  const welcome = <Welcome model={model} commands={commands} />;
  // Jobs of removed clusters stay in the list.
  const isEmpty = model.hasNoCluster && model.jobs.size === 0;
  return (
    <div className="jp-slurm-SidebarBody">
      <div className="jp-slurm-JobsHead">
        <h2>{trans.__('My jobs')}</h2>
        {isEmpty ? null : (
          <Tools
            commands={commands}
            refresh={props.refresh}
            collapse={() => setCollapsed(collapsed + 1)}
          />
        )}
      </div>
      {isEmpty ? (
        welcome
      ) : (
        <>
          <OldNews freshness={model.freshness} nowS={nowS} />
          {model.hasNoCluster ? (
            welcome
          ) : (
            <ClusterList model={model} commands={commands} nowS={nowS} />
          )}
          <FilterField
            label={trans.__('Filter my jobs')}
            placeholder={trans.__('Filter my jobs ( / )')}
            words={words}
            setWords={setWords}
          />
          <MyJobs {...props} words={words} nowS={rowsS} collapsed={collapsed} />
        </>
      )}
    </div>
  );
}

interface ToolsProps {
  commands: CommandRegistry;
  refresh: () => void;
  collapse: () => void;
}

function Tools({ commands, refresh, collapse }: ToolsProps): JSX.Element {
  const tools: [string, string, LabIcon][] = [
    [CommandIDs.submit, trans.__('Submit…'), addIcon],
    [CommandIDs.openQueue, trans.__('Queue'), listIcon],
    [CommandIDs.openNodes, trans.__('Nodes'), nodesIcon]
  ];
  return (
    <span className="jp-slurm-Tools" role="toolbar" aria-label={trans.__('Jobs')}>
      {tools
        .filter(([id]) => commands.hasCommand(id))
        .map(([id, caption, icon]) => (
          <CommandToolbarButtonComponent key={id} {...{ commands, id, caption, icon }} label="" />
        ))}
      <ToolbarButtonComponent icon={refreshIcon} tooltip={trans.__('Refresh')} onClick={refresh} />
      <ToolbarButtonComponent
        icon={collapseAllIcon}
        tooltip={trans.__('Collapse all')}
        onClick={collapse}
      />
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
    return asOf === null ? <p className="jp-slurm-Quiet">{trans.__('Loading…')}</p> : null;
  }
  return (
    <p className="jp-slurm-Problem" role="status" title={problem.detail ?? ''}>
      <span aria-hidden="true">? </span>
      {problem.message} {asOf === null ? null : trans.__('Last update %1', moment(asOf, nowS))}
    </p>
  );
}
