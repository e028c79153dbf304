// The form for a job, with a live preview.
import type { IEditorServices } from '@jupyterlab/codeeditor';
import type { CommandRegistry } from '@lumino/commands';
import { useCallback, useEffect, useRef, useState, type JSX, type ReactNode } from 'react';
import { problemOf } from '../model/model';
import { needsLogin, told } from '../messages';
import { CopyButton, Trouble } from '../parts';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { useSeen } from '../watching';
import type { Problem, RemoteKernel } from '../wire';
import { useCluster, type Known } from './cluster';
import { Fields } from './fields';
import { lineOf, magicFor, type Wishes } from './form';
import { useLatest } from './latest';
import type { Memory } from './memory';
import { Presets } from './presets';
import { Notes, Outlook, usePreview, type Asked } from './preview';
import { sorted, type Sentence, type Sorted } from './sentences';
import type { Source } from './source';
import { What } from './what';
import { quoted } from './words';
import '../../style/submit.css';

export interface Draft {
  wishes: Wishes;
  code: string;
}

export interface SubmitProps {
  model: ISlurmModel;
  source: Source;
  /** The first values, and a callback for the current ones. */
  draft: Draft;
  keep: (draft: Draft) => void;
  memory: Memory;
  commands: CommandRegistry;
  editors: IEditorServices;
  /** Reject if no job was submitted, or if the outcome is unknown. */
  submit: (wishes: Wishes, line: string, code: string) => Promise<void>;
}

export function SubmitView(props: SubmitProps): JSX.Element {
  const { model, source } = props;
  const seen = useSeen();
  const [draft, setDraft] = useState(props.draft);
  const { wishes, code } = draft;
  const sending = useSending(props);
  const form = useRef<HTMLFormElement>(null);
  const known = useCluster(model, wishes.cluster);
  const line = lineOf(wishes);
  const question = JSON.stringify(questionOf(source, line, code));
  const asked = usePreview(model, seen && wishes.cluster !== '' ? question : null);
  const kernel = useKernel(model, source.kind === 'kernel' ? line : null, seen);
  const noArray = noArrayOf(source);
  const sentences = sorted(asked.preview, asked.problem, noArray);
  const current = asked.question === question;
  const others = othersOf(sentences, known);
  const missing = missingIn(source, draft);
  const obstacle =
    missing ?? (current && isRefused(asked, source) ? refusal(sentences, others) : null);
  // Browsers allow a page to open a lab's tab only during the click.
  const ready = missing !== null || current || source.kind === 'lab';
  const press = usePress(ready, () => {
    if (obstacle !== null) {
      const code = ':is([contenteditable], textarea)';
      const wrong =
        missing === null
          ? `[aria-invalid="true"], [data-code][data-wrong="true"] ${code}`
          : `[data-code] ${code}`;
      form.current?.querySelector<HTMLElement>(wrong)?.focus();
    } else {
      void props.memory.keep(wishes);
      sending.submit(wishes, line, source.kind === 'cell' ? source.body() : code);
    }
  });
  const change = (next: Partial<Draft>): void => {
    const whole = { ...draft, ...next };
    press.forget();
    setDraft(whole);
    props.keep(whole);
  };
  return (
    <form
      ref={form}
      className="jp-slurm-Submit"
      aria-label={named(source).form}
      onSubmit={event => event.preventDefault()}
    >
      <div className="jp-slurm-SubmitBody">
        <What
          source={source}
          code={code}
          said={sentences.byField.get('code')}
          editors={props.editors}
          setCode={next => change({ code: next })}
        />
        {known.problem === null ? null : (
          <Trouble {...props} problem={known.problem} cluster={wishes.cluster} />
        )}
        <Fields
          clusters={model.clusters}
          known={known}
          wishes={wishes}
          kind={source.kind}
          offersArray={noArray === ''}
          kernel={kernel}
          said={sentences.byField}
          presets={
            <Presets
              memory={props.memory}
              wishes={wishes}
              change={next => change({ wishes: next })}
            />
          }
          change={next => change({ wishes: { ...wishes, ...next } })}
          changeCluster={cluster => {
            const { name, array, 'display-name': title } = wishes;
            const kept = { name, array, 'display-name': title };
            change({ wishes: { ...props.memory.of(cluster), ...kept } });
          }}
        />
        <Notes preview={asked.preview} notes={others.filter(one => one.text !== obstacle)} />
      </div>
      <Bar {...props} wishes={wishes} code={code} problem={sending.problem}>
        <button
          type="button"
          className="jp-mod-styled jp-mod-accept"
          title={trans.__('Ctrl+Enter')}
          aria-disabled={obstacle !== null || sending.busy || press.waits}
          onClick={press.press}
        >
          {sending.busy ? trans.__('Submitting…') : named(source).deed}
        </button>
        <Outlook
          asked={asked}
          obstacle={obstacle}
          wrong={obstacle !== null && missing === null}
          old={!current}
          awaited={press.waits}
        />
      </Bar>
    </form>
  );
}

interface Press {
  /** True if the button was pressed and the answer for the latest input is awaited. */
  waits: boolean;
  press: () => void;
  forget: () => void;
}

/** Delay the button until the latest input is checked. */
function usePress(ready: boolean, act: () => void): Press {
  const [waits, setWaits] = useState(false);
  useEffect(() => {
    if (waits && ready) {
      setWaits(false);
      act();
    }
  }, [waits, ready, act]);
  return {
    waits,
    press: () => setWaits(true),
    forget: () => setWaits(false)
  };
}

/** Return the missing input; null if the input is complete. */
function missingIn(source: Source, { wishes, code }: Draft): string | null {
  if (wishes.cluster === '') {
    return trans.__('Choose a cluster.');
  }
  return source.kind === 'code' && code.trim() === '' ? trans.__('Enter the code.') : null;
}

/** Return the reason why the job cannot be submitted, unless a field shows it. */
function refusal({ byField }: Sorted, others: readonly Sentence[]): string {
  if ([...byField.values()].some(one => one.ok === false)) {
    return trans.__('Fix the highlighted fields.');
  }
  const wrong = others.find(one => one.ok === false);
  return wrong?.text ?? trans.__('This cluster does not accept jobs now.');
}

/** Return the reason why the job cannot be an array; '' if it can. */
function noArrayOf(source: Source): string {
  return source.kind === 'file' && /\.(py|ipynb)$/.test(source.path)
    ? trans.__('Job arrays need a script')
    : '';
}

/** The form's name and the label of its button. */
function named({ kind }: Source): { form: string; deed: string } {
  switch (kind) {
    case 'lab':
      return { form: trans.__('Jupyter on a node'), deed: trans.__('Start') };
    case 'kernel':
      return { form: trans.__('New remote kernel'), deed: trans.__('Create kernel') };
    default:
      return { form: trans.__('Slurm job'), deed: trans.__('Submit') };
  }
}

/** The form's job as a command or magic. */
function typed(source: Source, wishes: Wishes, code: string): string {
  const line = lineOf(wishes);
  switch (source.kind) {
    case 'file':
      return `jupyter slurm submit ${line} ${quoted(source.path)}`;
    case 'lab':
      return `%slurm lab start ${line}`;
    case 'kernel':
      return `jupyter slurm kernel add ${line}`;
    case 'code':
      return `${magicFor(code, wishes)} ${line}`;
    case 'cell':
      return `%%slurm ${line}`;
  }
}

/** Return the question for the server's preview. */
function questionOf(source: Source, line: string, code: string): object {
  switch (source.kind) {
    case 'file':
      return { line, path: source.path };
    case 'cell':
      return { line, code: source.body(), notebook: source.notebook };
    case 'code':
      return { line, code };
    case 'lab':
    case 'kernel':
      return { line, code: '', kind: source.kind };
  }
}

/**
 * Return whether the server rejects the job. Only the kernel knows the variables of a cell's line.
 */
function isRefused(asked: Asked, source: Source): boolean {
  const failed = asked.preview?.checks.some(one => one.ok === false) ?? false;
  return failed || (asked.problem !== null && !asked.problem.transient && needed(asked, source));
}

function needed({ problem }: Asked, source: Source): boolean {
  return source.kind !== 'cell' && (problem === null || !needsLogin(problem));
}

/** Omit text that the problem of the cluster already contains. */
function othersOf({ others }: Sorted, { problem }: Known): Sorted['others'] {
  const known = problem?.message ?? null;
  return others.filter(one => known === null || !one.text.startsWith(known));
}

/** The kernel that the form would add; null if unknown. */
function useKernel(model: ISlurmModel, line: string | null, seen: boolean): RemoteKernel | null {
  const ask = useCallback(
    // The preview shows the errors.
    (asked: string) => model.call<RemoteKernel>('kernel_meant', { line: asked }).catch(() => null),
    [model]
  );
  return useLatest(ask, seen ? line : null);
}

interface Sending {
  busy: boolean;
  problem: Problem | null;
  submit: (...args: Parameters<SubmitProps['submit']>) => void;
}

function useSending({ submit }: SubmitProps): Sending {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  return {
    busy,
    problem,
    submit: (...args) => {
      if (busy) {
        return;
      }
      setBusy(true);
      setProblem(null);
      submit(...args)
        .catch((error: unknown) => setProblem(problemOf(error)))
        .finally(() => setBusy(false));
    }
  };
}

interface BarProps extends Pick<SubmitProps, 'source'> {
  wishes: Wishes;
  code: string;
  problem: Problem | null;
  children: ReactNode;
}

/** The form's job as a line to copy, and the button. */
function Bar({ source, wishes, code, problem, children }: BarProps): JSX.Element {
  const isCell = source.kind === 'code' || source.kind === 'cell';
  const shown = typed(source, wishes, code);
  const body = source.kind === 'cell' ? source.body() : code;
  const text = isCell ? `${shown.trimEnd()}\n${body}` : shown;
  const label = isCell ? trans.__('Copy as a cell') : trans.__('Copy');
  return (
    <div className="jp-slurm-SubmitBar">
      {problem === null ? null : (
        <p className="jp-slurm-Problem" role="alert">
          {told(problem)}
        </p>
      )}
      <div className="jp-slurm-Line">
        <code dir="ltr" title={shown} tabIndex={0}>
          {shown}
        </code>
        <CopyButton text={() => text} label={label} />
      </div>
      {children}
    </div>
  );
}
