// The view in place of a card: the saved text of a job or cluster that is unknown here, or a
// request to log in.
import type { JSX } from 'react';
import { visible } from '../format';
import { Marked } from '../marked';
import { trans } from '../translation';
import '../../style/card.css';

interface SavedProps {
  /** The reason for the missing live card. */
  sentence: string;
  /** The plain text saved in the notebook; '' without a text. */
  saved: string;
}

/** The longest text of a card, in characters. */
const MOST_SAVED = 16 * 1024;

/** A card without buttons, from the text in the notebook: state and name, facts, and notes. */
export function Saved({ sentence, saved }: SavedProps): JSX.Element {
  const [title = '', facts = '', ...notes] = saved.slice(0, MOST_SAVED).split('\n').map(visible);
  return (
    <section className="jp-slurm jp-slurm-Card" data-tone="ended" data-saved={saved !== ''}>
      {saved === '' ? null : (
        <>
          <div className="jp-slurm-CardHead">
            <bdi className="jp-slurm-CardTitle">{title}</bdi>
          </div>
          <p className="jp-slurm-Facts">{facts.trim()}</p>
          {notes.map((note, at) => (
            <p key={at} className="jp-slurm-CardNote">
              <Marked text={note.trim()} />
            </p>
          ))}
        </>
      )}
      <p className="jp-slurm-CardNote">{sentence}</p>
    </section>
  );
}

interface LoginProps {
  /** The name shown to users. */
  cluster: string;
  connect: () => void;
}

export function NeedsLogin({ cluster, connect }: LoginProps): JSX.Element {
  return (
    <section className="jp-slurm jp-slurm-Card" data-tone="waiting">
      <p className="jp-slurm-CardNote" data-tone="look">
        <span aria-hidden="true">⚠ </span>
        <span>{trans.__('%1 needs a login. The cell continues after the login.', cluster)}</span>
      </p>
      <button
        className="jp-slurm-Button"
        title={trans.__('Connect to %1', cluster)}
        onClick={connect}
      >
        {trans.__('Log in')}
      </button>
    </section>
  );
}
