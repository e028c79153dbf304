// Parts beside a grid: the filter field, and the button for an empty grid.
import type { CommandRegistry } from '@lumino/commands';
import type { JSX } from 'react';
import { CommandIDs } from '../tokens';
import { trans } from '../translation';

interface FilterProps {
  label: string;
  placeholder: string;
  /** The hover text. */
  title?: string;
  words: string;
  setWords: (words: string) => void;
}

/** Escape clears the field. */
export function FilterField({ label, words, setWords, ...rest }: FilterProps): JSX.Element {
  return (
    <input
      {...rest}
      className="jp-slurm-Filter"
      type="search"
      value={words}
      aria-label={label}
      spellCheck={false}
      onChange={event => setWords(event.currentTarget.value)}
      onKeyDown={event => {
        if (event.key === 'Escape' && words !== '') {
          event.stopPropagation();
          setWords('');
        }
      }}
    />
  );
}

/** The button of an empty list of jobs. */
export function SubmitButton({ commands, ...args }: SubmitProps): JSX.Element | null {
  return commands.hasCommand(CommandIDs.submit) ? (
    <button
      className="jp-slurm-Button"
      onClick={() => void commands.execute(CommandIDs.submit, args)}
    >
      {trans.__('Submit a job…')}
    </button>
  ) : null;
}

interface SubmitProps {
  commands: CommandRegistry;
  cluster?: string;
}
