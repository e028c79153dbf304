// A job's panel: its head, and panes behind tabs.
import type { IEditorServices } from '@jupyterlab/codeeditor';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { CommandRegistry } from '@lumino/commands';
import { useCallback, useId, useState, type JSX } from 'react';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job, JobDetails } from '../wire';
import { DetailsPane, useDetails } from './details';
import { Head } from './head';
import { LogPane } from './log';
import { Trouble } from '../parts';
import { ResourcesPane } from './resources';
import { ScriptPane } from './script';
import { Tabs } from './tabs';
import { TaskGrid } from './tasks';
import { TimelinePane } from './timeline';
import '../../style/job.css';

export interface Services {
  model: ISlurmModel;
  commands: CommandRegistry;
  rendermime: IRenderMimeRegistry;
  editors: IEditorServices;
}

/** The task whose log to show. Each request is a new object. */
export interface Asked {
  task: number;
}

interface Props extends Services {
  job: Job;
  /** The URL of the whole output as a file. */
  download: string;
  asked: Asked | null;
}

type Pane = 'log' | 'resources' | 'tasks' | 'script' | 'timeline' | 'details';

/** The height of a grid of tasks before its cells reach their smallest size. */
const GRID_PX = 420;

/** The panes that need the job's details. */
const DETAILED: ReadonlySet<Pane> = new Set(['script', 'timeline', 'details']);

export function JobPanelView(props: Props): JSX.Element {
  const { job, model, commands, editors } = props;
  const [wish, setPane] = useState<Pane>('log');
  const [asked, setAsked] = useState(props.asked);
  const [task, setTask] = useState(asked === null ? null : asked.task);
  if (asked !== props.asked && props.asked !== null) {
    setAsked(props.asked);
    setTask(props.asked.task);
    setPane('log');
  }
  const id = useId();
  const hasTasks = Object.keys(job.tasks).length > 0;
  const pane = wish === 'tasks' && !hasTasks ? 'log' : wish;
  const showLog = useCallback(
    (chosen: number) => {
      setTask(chosen);
      setPane('log');
      document.getElementById(`${id}log`)?.focus();
    },
    [id]
  );
  return (
    <div className="jp-slurm-JobBody">
      <Head job={job} model={model} commands={commands} />
      <Tabs
        id={id}
        label={trans.__('Views of the job')}
        tabs={[
          ['log', trans.__('Log')],
          ['resources', trans.__('Resources')],
          ...(hasTasks ? [['tasks', trans.__('Tasks')] as const] : []),
          ['script', trans.__('Script')],
          ['timeline', trans.__('Timeline')],
          ['details', trans.__('Details')]
        ]}
        shown={pane}
        show={setPane}
      />
      <div
        className="jp-slurm-Pane"
        role="tabpanel"
        id={`${id}pane`}
        aria-labelledby={`${id}${pane}`}
        tabIndex={pane === 'log' ? undefined : 0}
      >
        {pane === 'log' ? <LogPane {...props} task={task} setTask={setTask} /> : null}
        {pane === 'resources' ? <ResourcesPane {...props} /> : null}
        {pane === 'tasks' ? (
          <div className="jp-slurm-Details">
            <TaskGrid {...{ job, model }} chosen={task} choose={showLog} heightPx={GRID_PX} />
          </div>
        ) : null}
        <WithDetails {...props} wanted={DETAILED.has(pane)}>
          {details =>
            pane === 'script' ? (
              <ScriptPane details={details} editors={editors} />
            ) : pane === 'timeline' ? (
              <TimelinePane details={details} />
            ) : (
              <DetailsPane details={details} commands={commands} />
            )
          }
        </WithDetails>
      </div>
    </div>
  );
}

interface WithDetailsProps extends Props {
  wanted: boolean;
  children: (details: JobDetails) => JSX.Element;
}

/** The details, kept while another pane is shown. */
function WithDetails({
  job,
  model,
  commands,
  wanted,
  children
}: WithDetailsProps): JSX.Element | null {
  const { details, problem, again } = useDetails(model, job, wanted);
  if (!wanted) {
    return null;
  }
  return (
    <div className="jp-slurm-Details">
      {problem !== null ? (
        <Trouble problem={problem} cluster={job.cluster} commands={commands} again={again} />
      ) : details === null ? (
        <p className="jp-slurm-Empty">{trans.__('Loading…')}</p>
      ) : null}
      {details === null ? null : children(details)}
    </div>
  );
}
