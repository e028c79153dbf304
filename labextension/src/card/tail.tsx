// The last lines of a job's output as plain text, updated live.
import { useCallback, useLayoutEffect, useRef, useState, type JSX } from 'react';
import { useResting } from '../grid/feed';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { LogChunk } from '../wire';
import { asTerminal, plain } from '../job/terminal';

const LINES = 200;
/** Maximum characters of a line, since a line may not end. */
const CHARACTERS = 100_000;
interface Props {
  model: ISlurmModel;
  jobId: string;
  /** Opens the job's panel. */
  open: () => void;
}

export function LogTail({ model, jobId, open }: Props): JSX.Element {
  const [text, setText] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const box = useRef<HTMLPreElement>(null);
  const follow = useCallback(() => {
    const view = model.log(jobId);
    view.chunk.connect((_, chunk) => setText(before => lastLines((before ?? '') + textOf(chunk))));
    view.changed.connect(({ freshness }) => setProblem(freshness.problem?.message ?? null));
    return view;
  }, [model, jobId]);
  useResting(follow);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (box.current !== null && atEnd.current) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  }, [text]);
  const none = text === null ? trans.__('Loading…') : trans.__('No output yet.');
  return (
    <div>
      <pre
        className="jp-slurm-Tail"
        ref={box}
        role="log"
        aria-live="off"
        tabIndex={0}
        aria-label={trans.__('Log')}
        onScroll={({ currentTarget: at }) => {
          atEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < 8;
        }}
      >
        {text ? plain(text).replaceAll('\r', '') : (problem ?? none)}
      </pre>
      <p className="jp-slurm-Quiet">
        {problem !== null && text
          ? `${trans.__('Showing the last known state: %1', problem)} `
          : ''}
        <button className="jp-slurm-Link" onClick={open}>
          {trans.__('Open full log')}
        </button>
      </p>
    </div>
  );
}

/** The text of streams and errors. */
export function textOf(chunk: LogChunk): string {
  return chunk.outputs
    .map(output => {
      switch (output.type) {
        case 'stream':
          return output.text;
        case 'error':
          return `${output.traceback.join('\n')}\n`;
        default:
          return '';
      }
    })
    .join('');
}

/** The last lines with colours, as a terminal shows them. */
function lastLines(text: string): string {
  return asTerminal(text).slice(-CHARACTERS).split('\n').slice(-LINES).join('\n');
}
