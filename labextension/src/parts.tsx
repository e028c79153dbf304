// Small parts that views share: a button that copies, what is wrong and what to do.
import { Clipboard } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';
import { useEffect, useState, type JSX } from 'react';
import { needsLogin, toldBeside } from './messages';
import { CommandIDs } from './tokens';
import { trans } from './translation';
import type { Problem } from './wire';

const SAID_MS = 2_000;

interface CopyProps {
  /** Asked when it is pressed: it may be long. */
  text: () => string;
  /** What is copied, for who does not see beside what the button stands; none: the button says it. */
  what?: string;
  label?: string;
}

export function CopyButton({ text, what, label = trans.__('Copy') }: CopyProps): JSX.Element {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) {
      return undefined;
    }
    const timer = window.setTimeout(() => {
      setCopied(false);
    }, SAID_MS);
    return () => {
      window.clearTimeout(timer);
    };
  }, [copied]);
  return (
    <button
      className="jp-slurm-Button jp-slurm-Copy"
      type="button"
      aria-label={what && (copied ? trans.__('Copied: %1', what) : trans.__('Copy: %1', what))}
      onClick={() => {
        Clipboard.copyToSystem(text());
        setCopied(true);
      }}
    >
      {copied ? trans.__('Copied') : label}
    </button>
  );
}

interface TroubleProps {
  problem: Problem;
  cluster: string;
  commands: CommandRegistry;
  /** Asks once more; undefined: that happens by itself. */
  again?: () => void;
}

export function Trouble({ problem, cluster, commands, again }: TroubleProps): JSX.Element {
  return (
    <div className="jp-slurm-Problem" role="alert">
      {toldBeside(problem)}{' '}
      {needsLogin(problem) ? (
        <button
          type="button"
          className="jp-slurm-Button"
          onClick={() => void commands.execute(CommandIDs.connect, { cluster }).then(again)}
        >
          {trans.__('Log in')}
        </button>
      ) : again === undefined ? null : (
        <button className="jp-slurm-Button" onClick={again}>
          {trans.__('Try again')}
        </button>
      )}
    </div>
  );
}
