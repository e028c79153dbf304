// Puts what the waiting room of a lab says into the user's language: the room is a page of the
// server's without JupyterLab, and asks the one that is open beside it.
import { trans } from '../translation';

export interface Interpreter {
  postMessage: (message: unknown) => void;
  onmessage: ((event: MessageEvent) => void) | null;
}

/** `language` as JupyterLab has it: `pt_BR`. */
export function interpret(channel: Interpreter, language: string): void {
  const own = sentences();
  channel.onmessage = ({ data }) => {
    const { ask } = Object(data) as { ask?: unknown };
    if (typeof ask === 'string') {
      const answer = own.get(ask) ?? ask;
      channel.postMessage({ text: ask, answer, lang: language.replace('_', '-') });
    }
  };
}

/** Those of server/lab_room.html; their values are filled in there. */
function sentences(): ReadonlyMap<string, string> {
  return new Map([
    ['One moment …', trans.__('One moment …')],
    ['Try again', trans.__('Try again')],
    ['Output', trans.__('Output')],
    ['%1 on %2', trans.__('%1 on %2', '%1', '%2')],
    ['Starts ~%1', trans.__('Starts ~%1', '%1')],
    ['JupyterLab starts.', trans.__('JupyterLab starts.')],
    ['JupyterLab is ready.', trans.__('JupyterLab is ready.')],
    [
      'It is at %1 on the machine where this Jupyter runs, and this browser is on another.',
      trans.__(
        'It is at %1 on the machine where this Jupyter runs, and this browser is on another.',
        '%1'
      )
    ],
    [
      'In a terminal on that machine, jupyter slurm tunnel %1 opens it in a browser there and prints its address.',
      trans.__(
        'In a terminal on that machine, jupyter slurm tunnel %1 opens it in a browser there and prints its address.',
        '%1'
      )
    ],
    [
      'It can be shown below the address of this Jupyter: write lab_same_origin = true into the profile of its cluster (clusters.toml) and start it anew.',
      trans.__(
        'It can be shown below the address of this Jupyter: write lab_same_origin = true into the profile of its cluster (clusters.toml) and start it anew.'
      )
    ],
    [
      'It can be shown below the address of this Jupyter: write lab_same_origin = true into the profile of its cluster (clusters.toml) and try again.',
      trans.__(
        'It can be shown below the address of this Jupyter: write lab_same_origin = true into the profile of its cluster (clusters.toml) and try again.'
      )
    ],
    [
      'Whoever controls the machines of that cluster can then do with this session of Jupyter what you can: its files, its kernels, its terminals.',
      trans.__(
        'Whoever controls the machines of that cluster can then do with this session of Jupyter what you can: its files, its kernels, its terminals.'
      )
    ]
  ]);
}
