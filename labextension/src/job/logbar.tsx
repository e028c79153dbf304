// The tools of a log: search, stream, wrapping, times, copy, download.
import type { JSX, KeyboardEvent, ReactNode } from 'react';
import { trans } from '../translation';
import type { Finding } from './finding';
import type { Wanted } from './output';
import { CopyButton } from '../parts';
import { bytes } from './words';

interface Props {
  wanted: Wanted;
  setWanted: (wanted: Wanted) => void;
  wrap: boolean;
  setWrap: (wrap: boolean) => void;
  /** The times; null if they are unknown. */
  times: boolean | null;
  setTimes: (times: boolean) => void;
  text: () => string;
  download: string;
  finding: Finding;
  /** Closes the search. */
  leave: () => void;
  /** The choice of a task or rank. */
  children?: ReactNode;
}

export function LogBar(props: Props): JSX.Element {
  const { wanted, setWanted, wrap, setWrap, times, setTimes, text, download } = props;
  return (
    <div className="jp-slurm-LogBar">
      {props.children}
      <SearchField {...props} />
      <select
        aria-label={trans.__('Show')}
        value={wanted}
        onChange={event => setWanted(event.currentTarget.value as Wanted)}
      >
        <option value="all">{trans.__('all output')}</option>
        <option value="stdout">stdout</option>
        <option value="stderr">stderr</option>
      </select>
      <label className="jp-slurm-Check">
        <input
          type="checkbox"
          checked={wrap}
          onChange={event => setWrap(event.currentTarget.checked)}
        />{' '}
        {trans.__('Wrap')}
      </label>
      <label
        className="jp-slurm-Check"
        title={times === null ? trans.__('The times of these lines are unknown.') : undefined}
      >
        <input
          type="checkbox"
          checked={times ?? false}
          disabled={times === null}
          onChange={event => setTimes(event.currentTarget.checked)}
        />{' '}
        {trans.__('Times')}
      </label>
      <span className="jp-slurm-LogEnd">
        <CopyButton text={text} what={trans.__('the output')} />
        <a className="jp-slurm-Button" href={download} download>
          {trans.__('Download')}
        </a>
      </span>
    </div>
  );
}

function SearchField({ finding, leave }: Props): JSX.Element {
  const { text, setText, step } = finding;
  const keys = (event: KeyboardEvent): void => {
    if (event.key === 'Enter') {
      event.preventDefault();
      step(event.shiftKey ? -1 : 1);
    } else if (event.key === 'Escape') {
      setText('');
      leave();
    }
  };
  return (
    <span className="jp-slurm-LogSearch" role="search">
      <input
        type="text"
        className="jp-slurm-Filter"
        aria-label={trans.__('Find in the output')}
        placeholder={trans.__('Find')}
        value={text}
        onChange={event => setText(event.currentTarget.value)}
        onKeyDown={keys}
      />
      <span className="jp-slurm-Found jp-slurm-Quiet" role="status">
        {foundWords(finding)}
      </span>
      {text === '' ? null : (
        <>
          <button
            className="jp-slurm-IconButton"
            aria-label={trans.__('Previous match')}
            disabled={finding.total === 0}
            onClick={() => step(-1)}
          >
            <span aria-hidden="true">↑</span>
          </button>
          <button
            className="jp-slurm-IconButton"
            aria-label={trans.__('Next match')}
            disabled={finding.total === 0}
            onClick={() => step(1)}
          >
            <span aria-hidden="true">↓</span>
          </button>
        </>
      )}
    </span>
  );
}

function foundWords({ search, total, number, part }: Finding): string {
  if (search.text === '') {
    return '';
  }
  if (part === null) {
    return total === 0 ? trans.__('not found') : trans.__('%1 of %2', number + 1, total);
  }
  return total === 0
    ? trans.__('not found in the %1 shown', bytes(part))
    : trans.__('%1 of %2 in the %3 shown', number + 1, total, bytes(part));
}
