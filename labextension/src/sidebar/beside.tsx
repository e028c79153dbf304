// Parts beside the tree of jobs: the text for an empty tree, and the actions on selected jobs.
import { CommandToolbarButtonComponent } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import { memo, type JSX } from 'react';
import { argsOf } from '../commands/targets';
import { numeral } from '../language';
import { SubmitButton } from '../grid/parts';
import { Marked } from '../marked';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Row } from '../wire';
import { ACTIONS, actionsOf } from './menu';
import { targetOf } from './rows';

interface NothingProps {
  model: ISlurmModel;
  commands: CommandRegistry;
  words: string;
  /** `any` is true if a job exists. `found` is true if the tree shows a job. */
  any: boolean;
  found: boolean;
}

export function Nothing(props: NothingProps): JSX.Element | null {
  const { model, commands, words, any, found } = props;
  if (found || model.freshness.asOf === null) {
    return null;
  }
  if (words !== '' && any) {
    return <p className="jp-slurm-Empty">{trans.__('No jobs match “%1”.', words)}</p>;
  }
  return (
    <div className="jp-slurm-Empty">
      <p>
        <Marked
          text={trans.__(
            'No jobs yet. Run %1, then start a cell with %2.',
            '`%load_ext jupyter_slurm`',
            '`%%slurm`'
          )}
        />
      </p>
      <SubmitButton commands={commands} />
    </div>
  );
}

interface ChosenProps {
  rows: readonly Row[];
  commands: CommandRegistry;
}

/** The number of selected jobs, and the actions that apply to them. */
export const Chosen = memo(function Chosen(props: ChosenProps): JSX.Element | null {
  const { rows, commands } = props;
  if (rows.length === 0) {
    return null;
  }
  const usable = ACTIONS.map(id => ({ id, some: rows.filter(row => actionsOf(row).includes(id)) }))
    .filter(({ some }) => some.length > 0)
    .map(({ id, some }) => ({ id, args: { ...argsOf(some.map(targetOf)), chosen: rows.length } }))
    .filter(({ id, args }) => commands.hasCommand(id) && commands.isEnabled(id, args));
  return (
    <div className="jp-slurm-Chosen" role="group" aria-label={trans.__('Selected jobs')}>
      <span role="status">{trans.__('%1 selected', numeral(rows.length))}</span>
      {usable.map(({ id, args }) => (
        <CommandToolbarButtonComponent
          key={id}
          {...{ commands, id, args }}
          label=""
          caption={commands.label(id, args)}
        />
      ))}
    </div>
  );
});
