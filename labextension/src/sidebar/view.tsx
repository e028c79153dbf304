// What the sidebar shows: clusters, then my jobs in groups. A function of the model and of what is
// typed, chosen and opened here.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { ISignal } from '@lumino/signaling';
import { useEffect, useReducer, useState, type JSX } from 'react';
import { moment } from '../format';
import { said } from '../messages';
import { CommandIDs, type Freshness, type ISlurmModel } from '../tokens';
import { ClusterList } from './clusters';
import { MyJobs } from './jobs';
import type { News, Queues } from './queues';

const CLOCK_MS = 15_000;

export interface SidebarProps {
  model: ISlurmModel;
  commands: CommandRegistry;
  trans: TranslationBundle;
  queues: Queues;
  changed: ISignal<unknown, void>;
  isSeen: () => boolean;
}

export function SidebarView(props: SidebarProps): JSX.Element {
  const { model, commands, trans, queues } = props;
  const news = useNews(props.changed, props.isSeen);
  const [words, setWords] = useState('');
  const nowS = news.atS;
  return (
    <div className="jp-slurm-SidebarBody">
      <OldNews freshness={model.freshness} trans={trans} nowS={nowS} />
      <ClusterList model={model} queues={queues} commands={commands} trans={trans} nowS={nowS} />
      <div className="jp-slurm-JobsHead">
        <h2>{trans.__('My jobs')}</h2>
        <PanelButtons commands={commands} trans={trans} />
      </div>
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
      <MyJobs {...props} words={words} news={news} />
    </div>
  );
}

function PanelButtons({
  commands,
  trans
}: {
  commands: CommandRegistry;
  trans: TranslationBundle;
}): JSX.Element {
  const buttons: [string, string, string][] = [
    [CommandIDs.submit, trans.__('Submit…'), trans.__('Write a job and submit it')],
    [CommandIDs.openQueue, trans.__('Queue'), trans.__("Everybody's jobs")],
    [CommandIDs.openNodes, trans.__('Nodes'), trans.__('The nodes, and what is free on them')]
  ];
  return (
    <span className="jp-slurm-PanelButtons">
      {buttons
        .filter(([id]) => commands.hasCommand(id))
        .map(([id, label, title]) => (
          <button
            key={id}
            className="jp-slurm-Button"
            title={title}
            onClick={() => void commands.execute(id)}
          >
            {label}
          </button>
        ))}
    </span>
  );
}

interface OldNewsProps {
  freshness: Freshness;
  trans: TranslationBundle;
  nowS: number;
}

function OldNews({ freshness, trans, nowS }: OldNewsProps): JSX.Element | null {
  const { problem, asOf } = freshness;
  if (problem === null) {
    return asOf === null ? <p className="jp-slurm-Quiet">{trans.__('Looking…')}</p> : null;
  }
  return (
    <p className="jp-slurm-Problem" role="status" title={problem.detail ?? ''}>
      <span aria-hidden="true">? </span>
      {said(problem.message, trans)}{' '}
      {asOf === null ? null : trans.__('What is shown is of %1.', moment(asOf, nowS))}
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
