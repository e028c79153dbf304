// Small parts that views share: a state, a switch, command and copy buttons, a problem.
import { Clipboard } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { useEffect, useState, type JSX } from 'react';
import { stateWord, tone } from './format';
import { stateSign } from './icons';
import { needsLogin, toldBeside } from './messages';
import { CommandIDs } from './tokens';
import { trans } from './translation';
import type { Problem } from './wire';

/** A state as a word with its sign. `held` is true if the job is on hold. */
export function StateWord({ state, held }: { state: string; held?: boolean }): JSX.Element {
  return (
    <span className="jp-slurm-State" data-tone={tone(state)} title={state}>
      <span aria-hidden="true">{stateSign(state, held)} </span>
      {stateWord(state)}
    </span>
  );
}

interface SwitchProps<T> {
  label: string;
  ways: readonly (readonly [way: T, label: string])[];
  chosen: T;
  choose: (way: T) => void;
}

/** A choice between views of the same data. */
export function Switch<T extends string | boolean>({
  label,
  ways,
  chosen,
  choose
}: SwitchProps<T>): JSX.Element {
  return (
    <span className="jp-slurm-Switch" role="group" aria-label={label}>
      {ways.map(([way, name]) => (
        <button key={name} aria-pressed={way === chosen} onClick={() => choose(way)}>
          {name}
        </button>
      ))}
    </span>
  );
}

interface CommandProps {
  commands: CommandRegistry;
  id: string;
  args: ReadonlyPartialJSONObject;
}

export function CommandButton({ commands, id, args }: CommandProps): JSX.Element {
  return (
    <button
      className="jp-slurm-Button"
      disabled={!commands.isEnabled(id, args)}
      title={commands.caption(id, args)}
      onClick={() => void commands.execute(id, args)}
    >
      {commands.label(id, args)}
    </button>
  );
}

const SAID_MS = 2_000;

interface CopyProps {
  /** Called when the button is pressed, since the text may be long. */
  text: () => string;
  /** The name of the copied text for screen readers; undefined if the label names it. */
  what?: string;
  label?: string;
}

export function CopyButton({ text, what, label = trans.__('Copy') }: CopyProps): JSX.Element {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) {
      return undefined;
    }
    const timer = window.setTimeout(() => setCopied(false), SAID_MS);
    return () => window.clearTimeout(timer);
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
  /** Retries; undefined if retries are automatic. */
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
