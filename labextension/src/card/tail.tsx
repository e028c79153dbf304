// The last lines of a job's output, as plain text, live while they are shown.
import { useCallback, useLayoutEffect, useRef, useState, type JSX } from 'react';
import { useResting } from '../grid/feed';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { LogChunk } from '../wire';
import { said } from '../messages';

const LINES = 200;
/** A line has no end, perhaps. */
const CHARACTERS = 100_000;
/** What steers a terminal: CSI and OSC sequences (ECMA-48). */
// eslint-disable-next-line no-control-regex
const CONTROL = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?)/g;

interface Props {
  model: ISlurmModel;
  jobId: string;
  /** Opens the job's own view, which has all. */
  open: () => void;
}

export function LogTail({ model, jobId, open }: Props): JSX.Element {
  const [text, setText] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const box = useRef<HTMLPreElement>(null);
  const follow = useCallback(() => {
    const view = model.log(jobId);
    view.chunk.connect((_, chunk) => {
      setText(before => lastLines((before ?? '') + textOf(chunk)));
    });
    view.changed.connect(({ freshness }) => {
      setProblem(freshness.problem && said(freshness.problem.message));
    });
    return view;
  }, [model, jobId]);
  useResting(follow);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (box.current !== null && atEnd.current) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  }, [text]);
  const none = text === null ? trans.__('Looking…') : trans.__('No output yet.');
  return (
    <div className="jp-slurm-CardLog">
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
        {text ? text.replaceAll('\r', '') : (problem ?? none)}
      </pre>
      <p className="jp-slurm-Quiet">
        {problem !== null && text ? `${trans.__('Nothing newer is known: %1', problem)} ` : ''}
        <button className="jp-slurm-Link" onClick={open}>
          {trans.__('Open the whole log')}
        </button>
      </p>
    </div>
  );
}

/** The streams' text, and what errors say, without the control sequences of terminals. */
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
    .join('')
    .replace(CONTROL, '');
}

/** What a terminal would show of it: a carriage return begins the line anew. */
export function lastLines(text: string): string {
  const lines = text.slice(-CHARACTERS).split('\n').slice(-LINES);
  return lines.map(overwritten).join('\n');
}

/** One that stands at the end waits for what comes after it. */
function overwritten(line: string): string {
  const shown = line.replace(/\r+$/, '');
  const kept = shown.slice(shown.lastIndexOf('\r') + 1);
  return shown === line ? kept : `${kept}\r`;
}
