// The text in place of a card, for a job or cluster that is not known and for a cluster that needs
// a login.
import type { JSX } from 'react';
import { visible } from '../format';
import '../../style/card.css';
import { trans } from '../translation';

interface SavedProps {
  /** The text about the job, shown instead of its card. */
  sentence: string;
  /** The plain text saved in the notebook; '': none. */
  saved: string;
}

/** The longest text of a card, in characters. */
const MOST_SAVED = 16 * 1024;

/** Shows what the notebook says of a job that is not known, and says that this is all. */
export function Saved({ sentence, saved }: SavedProps): JSX.Element {
  return (
    <div className="jp-slurm jp-slurm-Card" data-tone="ended">
      <p className="jp-slurm-CardNote">{sentence}</p>
      {saved === '' ? null : (
        <pre className="jp-slurm-Saved">
          {saved.slice(0, MOST_SAVED).split('\n').map(visible).join('\n')}
        </pre>
      )}
    </div>
  );
}

interface LoginProps {
  /** The name that users see. */
  cluster: string;
  connect: () => void;
}

export function NeedsLogin({ cluster, connect }: LoginProps): JSX.Element {
  return (
    <section className="jp-slurm jp-slurm-Card" data-tone="waiting">
      <p className="jp-slurm-CardNote" data-tone="look">
        <span aria-hidden="true">⚠ </span>
        <span>{trans.__('%1 needs a login. This goes on by itself after it.', cluster)}</span>
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
