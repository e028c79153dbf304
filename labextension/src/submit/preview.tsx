// What would become of a job that is being asked for: expected start, cost, checks, the script.
import type { TranslationBundle } from '@jupyterlab/translation';
import { useEffect, useRef, useState, type JSX } from 'react';
import { duration, moment } from '../format';
import { problemOf } from '../model/model';
import type { ISlurmModel } from '../tokens';
import type { Cost, Preview, Problem } from '../wire';
import { quoted } from './form';
import { Latest } from './latest';
import type { Sentence } from './sentences';

/** What `POST outlook` takes. */
export interface Question {
  line: string;
  code?: string;
  path?: string;
  notebook?: string;
  kind?: 'lab' | 'kernel';
}

export interface Asked {
  /** What the answer is of; null: there is none yet. */
  question: Question | null;
  preview: Preview | null;
  problem: Problem | null;
}

const NOTHING: Asked = { question: null, preview: null, problem: null };

/** The newest answer; the one before stays until it is there. */
export function usePreview(model: ISlurmModel, question: Question, shown: boolean): Asked {
  const [asked, setAsked] = useState(NOTHING);
  const latest = useRef<Latest<Question, Asked> | null>(null);
  useEffect(() => {
    const made = new Latest<Question, Asked>(
      wanted => look(model, wanted),
      (_, answer) => {
        setAsked(answer);
      }
    );
    latest.current = made;
    return () => {
      made.dispose();
    };
  }, [model]);
  const { line, code, path, notebook, kind } = question;
  // A login that has come about may change the answer.
  const connection = [...model.connections.values()].map(one => one.state).join();
  useEffect(() => {
    if (shown) {
      latest.current?.want(wish({ line, code, path, notebook, kind }));
    }
  }, [model, line, code, path, notebook, kind, connection, shown]);
  return asked;
}

export function isOf(asked: Asked, { line, code, path, notebook }: Question): boolean {
  const of = asked.question;
  return (
    of !== null &&
    of.line === line &&
    of.code === code &&
    of.path === path &&
    of.notebook === notebook
  );
}

/** Without what is not said. */
function wish({ line, code, path, notebook, kind }: Said): Question {
  return {
    line,
    ...(code === undefined ? {} : { code }),
    ...(path === undefined ? {} : { path }),
    ...(notebook === undefined ? {} : { notebook }),
    ...(kind === undefined ? {} : { kind })
  };
}

type Said = { [key in keyof Question]: Question[key] | undefined } & { line: string };

async function look(model: ISlurmModel, question: Question): Promise<Asked> {
  try {
    const preview = await model.call<Preview>('outlook', { ...question });
    return { question, preview, problem: null };
  } catch (error) {
    return { question, preview: null, problem: problemOf(error) };
  }
}

interface PaneProps {
  preview: Preview | null;
  others: readonly Sentence[];
  /** What is wrong stands at a field. */
  marked: boolean;
  /** It is of what was typed before. */
  old: boolean;
  trans: TranslationBundle;
}

export function PreviewPane({ preview, others, marked, old, trans }: PaneProps): JSX.Element {
  const nowS = Date.now() / 1000;
  return (
    <section className="jp-slurm-Preview" aria-label={trans.__('What would become of it')}>
      <div className="jp-slurm-Outlook" aria-live="polite" data-old={old}>
        {preview === null ? (
          others.length > 0 ? null : (
            <p className="jp-slurm-Quiet">
              {marked ? trans.__('A field that is marked cannot be so.') : trans.__('Looking…')}
            </p>
          )
        ) : (
          <>
            <p>{start(preview, nowS, trans)}</p>
            <p>{costs(preview.cost, trans)}</p>
          </>
        )}
        <ul className="jp-slurm-Checks">
          {others.map(one => (
            <li key={one.text} data-ok={String(one.ok)}>
              <span aria-hidden="true">{sign(one.ok)}</span>
              <span>{one.text}</span>
            </li>
          ))}
        </ul>
      </div>
      {preview === null ? null : (
        <>
          <Code title={trans.__('Script')} text={preview.script} />
          <Code title={trans.__('Command of submission')} text={words(preview.sbatch)} />
        </>
      )}
    </section>
  );
}

function words(argv: readonly string[]): string {
  return argv.map(quoted).join(' ');
}

function Code({ title, text }: { title: string; text: string }): JSX.Element | null {
  return text === '' ? null : (
    <details>
      <summary>{title}</summary>
      <pre className="jp-slurm-Code" tabIndex={0} aria-label={title}>
        {text}
      </pre>
    </details>
  );
}

function sign(ok: boolean | null): string {
  return ok === false ? '✖' : ok === true ? '✔' : '·';
}

function start(preview: Preview, nowS: number, trans: TranslationBundle): string {
  const at = preview.start_estimate_s;
  if (at === null) {
    if (preview.checks.some(one => one.ok === false)) {
      return '';
    }
    return trans.__('When it would start is not known.');
  }
  return at - nowS < 60
    ? trans.__('Slurm expects it to start at once.')
    : trans.__('Slurm expects it to start at %1, in %2.', moment(at, nowS), duration(at - nowS));
}

function costs(cost: Cost | null, trans: TranslationBundle): string {
  if (cost === null) {
    return '';
  }
  const parts = [
    trans.__('%1 h of CPUs', rounded(cost.cpu_hours)),
    cost.gpu_hours > 0 ? trans.__('%1 h of GPUs', rounded(cost.gpu_hours)) : '',
    cost.units === null ? '' : `${rounded(cost.units)} ${cost.unit}`
  ].filter(part => part !== '');
  return cost.jobs > 1
    ? trans.__(
        'At most, %1 jobs in %2 each: %3.',
        cost.jobs,
        duration(cost.limit_s),
        parts.join(', ')
      )
    : trans.__('At most, in %1: %2.', duration(cost.limit_s), parts.join(', '));
}

function rounded(hours: number): string {
  return hours.toLocaleString(undefined, { maximumFractionDigits: hours < 10 ? 1 : 0 });
}
