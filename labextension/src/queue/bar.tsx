// The bar above the queue: the filter, states, and actions on selected rows.
import type { CommandRegistry } from '@lumino/commands';
import type { JSX } from 'react';
import { argsOf, type Target } from '../commands/targets';
import { asksFor, toggled } from '../grid/terms';
import { numeral } from '../language';
import { CommandButton, StateWord } from '../parts';
import { CommandIDs } from '../tokens';
import { trans } from '../translation';

export const STEERING = [CommandIDs.hold, CommandIDs.release, CommandIDs.requeue] as const;
const ACTIONS = [CommandIDs.openJob, ...STEERING, CommandIDs.cancel] as const;

export function filterHelp(): string {
  return [
    trans.__('All words must match:'),
    trans.__('ana train – in any column'),
    trans.__('"two words" – literally'),
    trans.__('user:ana,bo – either value, in that column'),
    trans.__('-state:pending – must not match'),
    trans.__('gpus>0  nodes>=2  priority<100 – numbers'),
    trans.__('time>2h  limit<=30m – durations (s, m, h, d)'),
    trans.__(
      'Columns: %1',
      'id name user state partition time limit gpus nodes where why reason priority account qos job'
    )
  ].join('\n');
}

interface StatesProps {
  words: string;
  setWords: (words: string) => void;
  counts: readonly (readonly [string, number])[];
}

export function StateChips({ counts, words, setWords }: StatesProps): JSX.Element {
  return (
    <>
      {counts.map(([state, count]) => (
        <button
          key={state}
          className="jp-slurm-Chip"
          aria-pressed={asksFor(words, 'state', state.toLowerCase())}
          onClick={() => setWords(toggled(words, 'state', state.toLowerCase()))}
        >
          <StateWord state={state} /> <span className="jp-slurm-Number">{numeral(count)}</span>
        </button>
      ))}
    </>
  );
}

interface ActionsProps {
  commands: CommandRegistry;
  /** The number of selected rows, of all users. */
  chosen: number;
  targets: readonly Target[];
}

export function Actions({ commands, chosen, targets }: ActionsProps): JSX.Element | null {
  if (chosen === 0) {
    return null;
  }
  const args = argsOf(targets);
  return (
    <div className="jp-slurm-QueueActions" role="group" aria-label={trans.__('Selection')}>
      {ACTIONS.filter(id => commands.hasCommand(id)).map(id => (
        <CommandButton key={id} {...{ commands, id, args }} />
      ))}
      <span className="jp-slurm-Quiet" role="status">
        {targets.length === 0
          ? trans._n('This job is not yours.', 'These %1 jobs are not yours.', chosen)
          : chosen > 1
            ? selected(targets.length, chosen)
            : ''}
      </span>
    </div>
  );
}

function selected(own: number, all: number): string {
  return own === all
    ? trans.__('%1 selected', numeral(all))
    : trans.__('%1 of %2 selected jobs are yours', numeral(own), numeral(all));
}
