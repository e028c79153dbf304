// The form that makes a job: it knows the cluster, and shows what would become of the job as one
// types. A function of what is typed and of what the cluster says; what submits is sending.ts's.
import type { TranslationBundle } from '@jupyterlab/translation';
import { useRef, useState, type JSX } from 'react';
import { problemOf } from '../model/model';
import { needsLogin, said, told, toldBeside } from '../messages';
import type { ISlurmModel } from '../tokens';
import type { Problem } from '../wire';
import { withLine } from './cell';
import { useCluster, type Known } from './cluster';
import { Fields } from './fields';
import { lineOf, type Wishes } from './form';
import { useKernel } from './kernel';
import { isOf, PreviewPane, usePreview, type Asked, type Question } from './preview';
import { sorted, type Sorted } from './sentences';
import type { Source } from './source';
import { What } from './what';

export interface Draft {
  wishes: Wishes;
  code: string;
}

export interface SubmitProps {
  model: ISlurmModel;
  trans: TranslationBundle;
  source: Source;
  /** What it begins with, and what it has come to: it may be taken down and shown elsewhere. */
  draft: Draft;
  keep: (draft: Draft) => void;
  /** What was chosen last on a cluster. */
  remembered: (cluster: string) => Wishes;
  remember: (wishes: Wishes) => void;
  connect: (cluster: string) => void;
  /** Rejects: nothing was submitted, or nobody knows. */
  submit: (wishes: Wishes, line: string, code: string) => Promise<void>;
  copy: (text: string) => void;
}

export function SubmitView(props: SubmitProps & { shown: boolean }): JSX.Element {
  const { model, trans, source, shown } = props;
  const [draft, setDraft] = useState(props.draft);
  const { wishes, code } = draft;
  const change = (next: Partial<Draft>): void => {
    const whole = { ...draft, ...next };
    setDraft(whole);
    props.keep(whole);
  };
  const sending = useSending(props);
  const form = useRef<HTMLFormElement>(null);
  const known = useCluster(model, wishes.cluster, shown);
  const line = lineOf(wishes);
  const question = questionOf(source, line, code);
  const asked = usePreview(model, question, shown && wishes.cluster !== '');
  const kernel = useKernel(model, line, shown && source.kind === 'kernel');
  const sentences = sorted(asked.preview, asked.problem, trans);
  const current = isOf(asked, question);
  const submit = (): void => {
    const empty = source.kind === 'code' && code.trim() === '';
    if (empty || (current && isRefused(asked, source))) {
      const wrong = empty ? '[data-code] textarea' : '[aria-invalid="true"]';
      form.current?.querySelector<HTMLElement>(wrong)?.focus();
    } else {
      props.remember(wishes);
      sending.submit(wishes, line, source.kind === 'cell' ? source.body() : code);
    }
  };
  return (
    <form
      ref={form}
      className="jp-slurm-Submit"
      aria-label={formName(source, trans)}
      onSubmit={event => {
        event.preventDefault();
      }}
      onKeyDown={event => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
          event.preventDefault();
          submit();
        }
      }}
    >
      <div className="jp-slurm-SubmitBody">
        <div className="jp-slurm-SubmitForm">
          <What
            source={source}
            code={code}
            said={sentences.byField.get('code')}
            setCode={next => {
              change({ code: next });
            }}
            trans={trans}
          />
          <Fields
            clusters={model.clusters}
            known={known}
            wishes={wishes}
            kind={source.kind}
            kernel={kernel}
            said={sentences.byField}
            change={next => {
              change({ wishes: { ...wishes, ...next } });
            }}
            changeCluster={cluster => {
              const { name, array, 'display-name': title } = wishes;
              const kept = { name, array, 'display-name': title };
              change({ wishes: { ...props.remembered(cluster), ...kept } });
            }}
            trans={trans}
          />
        </div>
        <div className="jp-slurm-SubmitSide">
          <Trouble {...props} known={known} cluster={wishes.cluster} />
          <PreviewPane
            preview={asked.preview}
            others={othersOf(sentences, known, trans)}
            marked={sentences.byField.size > 0}
            old={!current}
            trans={trans}
          />
        </div>
      </div>
      <Bar
        source={source}
        copy={props.copy}
        trans={trans}
        line={line}
        text={source.kind === 'cell' ? source.body() : code}
        sending={sending.busy}
        problem={sending.problem}
        submit={submit}
      />
    </form>
  );
}

function formName(source: Source, trans: TranslationBundle): string {
  switch (source.kind) {
    case 'lab':
      return trans.__('Jupyter on a node');
    case 'kernel':
      return trans.__('New remote kernel');
    default:
      return trans.__('Slurm job');
  }
}

/** What the button does. */
function deed(source: Source, trans: TranslationBundle): string {
  switch (source.kind) {
    case 'lab':
      return trans.__('Start');
    case 'kernel':
      return trans.__('Create kernel');
    default:
      return trans.__('Submit');
  }
}

/** The same as one would type it. */
function typed(source: Source, line: string): string {
  switch (source.kind) {
    case 'file':
      return line;
    case 'lab':
      return `%slurm lab start ${line}`;
    case 'kernel':
      return `jupyter slurm kernel add ${line}`;
    default:
      return `%%slurm ${line}`;
  }
}

/** What is asked of the server while somebody types. */
function questionOf(source: Source, line: string, code: string): Question {
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

/** A cell's line may hold variables, which only its kernel knows: that is no reason against it. */
function isRefused(asked: Asked, source: Source): boolean {
  const failed = asked.preview?.checks.some(one => one.ok === false) ?? false;
  return failed || (asked.problem !== null && !asked.problem.transient && needed(asked, source));
}

function needed({ problem }: Asked, source: Source): boolean {
  return source.kind !== 'cell' && (problem === null || !needsLogin(problem));
}

/** Why nothing is known of the cluster is said once. */
function othersOf(
  { others }: Sorted,
  { problem }: Known,
  trans: TranslationBundle
): Sorted['others'] {
  const known = problem === null ? null : said(problem.message, trans);
  return others.filter(one => known === null || !one.text.startsWith(known));
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
        .catch((error: unknown) => {
          setProblem(problemOf(error));
        })
        .finally(() => {
          setBusy(false);
        });
    }
  };
}

type TroubleProps = SubmitProps & { known: Known; cluster: string };

/** Why the form knows nothing of the cluster, and what to do about it. */
function Trouble({ model, known, cluster, connect, trans }: TroubleProps): JSX.Element | null {
  if (model.clusters.length === 0 && model.freshness.asOf !== null) {
    return (
      <p className="jp-slurm-Problem" role="alert">
        {trans.__('No cluster is known here. “jupyter slurm up” starts one on this machine.')}
      </p>
    );
  }
  const { problem } = known;
  return problem === null ? null : (
    <div className="jp-slurm-Problem" role="alert">
      {toldBeside(problem, trans)}
      {needsLogin(problem) ? (
        <button
          type="button"
          className="jp-slurm-Button"
          onClick={() => {
            connect(cluster);
          }}
        >
          {trans.__('Connect')}
        </button>
      ) : null}
    </div>
  );
}

interface BarProps {
  source: Source;
  copy: (text: string) => void;
  trans: TranslationBundle;
  line: string;
  text: string;
  sending: boolean;
  problem: Problem | null;
  submit: () => void;
}

function Bar({ source, line, text, sending, problem, submit, copy, trans }: BarProps): JSX.Element {
  const [copied, setCopied] = useState('');
  const cell = withLine(line, text);
  return (
    <div className="jp-slurm-SubmitBar">
      {problem === null ? null : (
        <p className="jp-slurm-Problem" role="alert">
          {told(problem, trans)}
        </p>
      )}
      <button
        type="button"
        className="jp-mod-styled jp-mod-accept"
        title={trans.__('Ctrl+Enter')}
        aria-disabled={sending}
        onClick={submit}
      >
        {sending ? trans.__('Submitting…') : deed(source, trans)}
      </button>
      {source.kind !== 'code' && source.kind !== 'cell' ? null : (
        <button
          type="button"
          className="jp-slurm-Button"
          onClick={() => {
            copy(cell);
            setCopied(cell);
          }}
        >
          {copied === cell ? trans.__('Copied') : trans.__('Copy as a cell')}
        </button>
      )}
      <code className="jp-slurm-Line" dir="ltr">
        {typed(source, line)}
      </code>
    </div>
  );
}
