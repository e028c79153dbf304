// A job as a row: name and time, the part of its time that is used, state and what else is known.
// What it does when it is used is given to it; keys are keys.ts's.
import type { TranslationBundle } from '@jupyterlab/translation';
import { LabIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { JSX, MouseEvent } from 'react';
import { useClock } from '../clock';
import { openMenu } from '../commands/menu';
import { argsOf, type Target } from '../commands/targets';
import { isFinal, stateWord, tone, visible } from '../format';
import { stateSign } from '../icons';
import { CommandIDs } from '../tokens';
import { actionsOf, steeringOf } from './menu';
import { targetOf, type JobRow } from './rows';
import { exactTimes, facts, time, used } from './words';

/** What rows share: who is chosen, where the keys are, and how that changes. */
export interface RowsProps {
  commands: CommandRegistry;
  trans: TranslationBundle;
  /** By key. */
  chosen: ReadonlySet<string>;
  choose: (key: string) => void;
  /** The row that Tab leads to. */
  current: string | null;
  setCurrent: (key: string) => void;
  /** Arrays whose tasks are shown, by key. */
  opened: ReadonlySet<string>;
  toggleOpened: (key: string) => void;
  /** Those that something done to this row is done to: all that are chosen, or itself. */
  targets: (row: JobRow) => Target[];
}

export function Row({ row, ...shared }: RowsProps & { row: JobRow }): JSX.Element {
  const { commands, trans, opened, toggleOpened, chosen, current, setCurrent } = shared;
  const isOpen = opened.has(row.key);
  const name = visible(row.name);
  const tabIndex = current === row.key ? 0 : -1;
  const menu = (event: MouseEvent): void => {
    if (!event.shiftKey) {
      event.preventDefault();
      event.stopPropagation();
      const at = { x: event.clientX, y: event.clientY };
      openMenu(commands, shared.targets(row), steeringOf(row), at);
    }
  };
  return (
    <li className="jp-slurm-Row" data-chosen={chosen.has(row.key)}>
      <div
        className="jp-slurm-RowLine"
        onContextMenu={menu}
        onFocus={() => {
          setCurrent(row.key);
        }}
      >
        {row.tasks.length > 0 ? (
          <button
            className="jp-slurm-IconButton jp-slurm-Opener"
            tabIndex={tabIndex}
            aria-expanded={isOpen}
            aria-label={trans.__('Tasks of %1', name)}
            onClick={() => {
              toggleOpened(row.key);
            }}
          >
            <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span>
          </button>
        ) : null}
        <Main row={row} tabIndex={tabIndex} {...shared} />
        <Actions row={row} tabIndex={tabIndex} commands={commands} trans={trans} />
      </div>
      {isOpen && row.tasks.length > 0 ? (
        <ul className="jp-slurm-Rows jp-slurm-Tasks" aria-label={trans.__('Tasks of %1', name)}>
          {row.tasks.map(task => (
            <Row key={task.key} row={task} {...shared} />
          ))}
        </ul>
      ) : null}
    </li>
  );
}

function Main({ row, tabIndex, ...shared }: RowsProps & { row: JobRow; tabIndex: number }) {
  const { commands, trans, chosen, choose } = shared;
  const nowS = useClock(isFinal(row.state) ? null : (row.startedS ?? row.submittedS));
  const name = visible(row.name);
  const part = used(row, nowS);
  return (
    <button
      className="jp-slurm-RowMain"
      data-key={row.key}
      tabIndex={tabIndex}
      onClick={event => {
        if (event.ctrlKey || event.metaKey) {
          choose(row.key);
        } else {
          void commands.execute(CommandIDs.openJob, argsOf([targetOf(row)]));
        }
      }}
    >
      <span className="jp-slurm-RowHead">
        <bdi className="jp-slurm-Name" title={name}>
          {name}
        </bdi>
        {row.tasks.length > 0 || row.slurmId?.includes('_') ? (
          <span className="jp-slurm-Time">{row.slurmId}</span>
        ) : null}
        <span className="jp-slurm-Time" title={exactTimes(row, trans)}>
          {time(row, nowS, trans)}
        </span>
      </span>
      {part === null ? null : (
        <span className="jp-slurm-RowBar" aria-hidden="true">
          <span style={{ width: `${part * 100}%` }} />
        </span>
      )}
      <span className="jp-slurm-Facts">
        <span className="jp-slurm-State" data-tone={tone(row.state)}>
          <span aria-hidden="true">{stateSign(row.state)} </span>
          {stateWord(row.state, trans)}
        </span>
        {facts(row, nowS, trans).map(fact => (
          <span key={fact}>{` · ${fact}`}</span>
        ))}
      </span>
      {chosen.has(row.key) ? <span className="jp-slurm-Unseen">{trans.__('selected')}</span> : null}
    </button>
  );
}

interface ActionsProps {
  row: JobRow;
  tabIndex: number;
  commands: CommandRegistry;
  trans: TranslationBundle;
}

function Actions({ row, tabIndex, commands, trans }: ActionsProps): JSX.Element {
  const args = argsOf([targetOf(row)]);
  return (
    <span className="jp-slurm-Actions">
      {actionsOf(row)
        .filter(id => commands.hasCommand(id) && commands.isEnabled(id, args))
        .map(id => (
          <button
            key={id}
            className="jp-slurm-IconButton"
            tabIndex={tabIndex}
            title={commands.label(id, args)}
            aria-label={trans.__('%1: %2', commands.label(id, args), visible(row.name))}
            onClick={() => void commands.execute(id, args)}
          >
            <LabIcon.resolveReact
              icon={commands.icon(id, args) as LabIcon | undefined}
              tag="span"
              className="jp-slurm-Icon"
            />
          </button>
        ))}
    </span>
  );
}
