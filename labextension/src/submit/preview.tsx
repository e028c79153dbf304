// The preview of a job: expected start and cost, notes, script and command.
import { useCallback, type JSX } from 'react';
import { moment } from '../format';
import { language, listed } from '../language';
import { Marked } from '../marked';
import { problemOf } from '../model/model';
import { CopyButton } from '../parts';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Cost, Preview, Problem } from '../wire';
import { Age } from './age';
import { quoted } from './words';
import { useLatest } from './latest';
import type { Sentence } from './sentences';

export interface Asked {
  /** The question of this answer; null before the first answer. */
  question: string | null;
  preview: Preview | null;
  problem: Problem | null;
  /** UTC epoch seconds of the answer; null before the first answer. */
  atS: number | null;
}

const NOTHING: Asked = { question: null, preview: null, problem: null, atS: null };

/** Ask `POST outlook`, and return the latest answer. `question` is JSON; null asks nothing. */
export function usePreview(model: ISlurmModel, question: string | null): Asked {
  const ask = useCallback(
    async (asked: string): Promise<Asked> => {
      try {
        const args = JSON.parse(asked) as Record<string, unknown>;
        const preview = await model.call<Preview>('outlook', args);
        return { question: asked, preview, problem: null, atS: Date.now() / 1000 };
      } catch (error) {
        return { question: asked, preview: null, problem: problemOf(error), atS: null };
      }
    },
    [model]
  );
  // A login may change the answer.
  const connections = [...model.connections.values()].map(one => one.state).join();
  return useLatest(ask, question, connections) ?? NOTHING;
}

interface OutlookProps {
  asked: Asked;
  /** The reason why the job cannot be submitted; null if none is known. */
  obstacle: string | null;
  /** True if the input is wrong, not only incomplete. */
  wrong: boolean;
  /** True if the answer belongs to older input. */
  old: boolean;
  /** True if the user pressed the button, which waits for the next answer. */
  awaited: boolean;
}

/** Text beside the button: the missing input, or the expected start and cost. */
export function Outlook({ asked, obstacle, wrong, old, awaited }: OutlookProps): JSX.Element {
  const { preview, atS } = asked;
  const nowS = Date.now() / 1000;
  const known =
    awaited || preview === null || preview.checks.some(one => one.ok === false)
      ? []
      : [start(preview, nowS), costs(preview.cost)].filter(Boolean);
  const waits = awaited || (old && known.length === 0);
  return (
    <div className="jp-slurm-Outlook" data-old={old}>
      <span role="status" data-wrong={wrong}>
        {obstacle !== null ? (
          <Marked text={obstacle} />
        ) : waits ? (
          trans.__('Checking…')
        ) : (
          known.join(' · ')
        )}
      </span>
      {obstacle === null && known.length > 0 ? <Age asOf={atS} /> : null}
    </div>
  );
}

interface NotesProps {
  preview: Preview | null;
  notes: readonly Sentence[];
}

/** Notes about the whole job, its script and its command. */
export function Notes({ preview, notes }: NotesProps): JSX.Element {
  return (
    <section className="jp-slurm-Preview" aria-label={trans.__('Preview')}>
      <ul className="jp-slurm-Checks">
        {notes.map(one => (
          <li key={one.text} data-ok={String(one.ok)}>
            <span aria-hidden="true">{sign(one.ok)}</span>
            <Marked text={one.text} />
          </li>
        ))}
      </ul>
      {preview === null ? null : (
        <>
          <Code title={trans.__('Script')} text={preview.script} />
          <Code title={trans.__('sbatch command')} text={words(preview.sbatch)} />
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
      <CopyButton text={() => text} what={title} />
      <pre className="jp-slurm-Code" tabIndex={0} aria-label={title}>
        {text}
      </pre>
    </details>
  );
}

function sign(ok: boolean | null): string {
  return ok === false ? '✖' : ok === true ? '✔' : '·';
}

function start(preview: Preview, nowS: number): string {
  const at = preview.start_estimate_s;
  if (at === null) {
    return trans.__('Start time unknown');
  }
  return at - nowS < 60
    ? trans.__('Expected to start immediately')
    : trans.__('Starts ~%1', moment(at, nowS));
}

function costs(cost: Cost | null): string {
  if (cost === null) {
    return '';
  }
  const parts = [
    hours(cost.cpu_hours, (n, text) => trans._n('%2 CPU-hour', '%2 CPU-hours', n, text)),
    hours(cost.gpu_hours, (n, text) => trans._n('%2 GPU-hour', '%2 GPU-hours', n, text)),
    cost.units === null ? '' : `${rounded(cost.units)} ${cost.unit}`.trim()
  ];
  const sum = listed(parts);
  return cost.jobs > 1
    ? trans._n('Up to %2 for %1 job', 'Up to %2 for %1 jobs', cost.jobs, sum)
    : trans.__('Up to %1', sum);
}

/** Return the rounded number for plural forms: 1.02 is one hour. */
function hours(count: number, said: (n: number, text: string) => string): string {
  return count === 0 ? '' : said(rounded(count) === rounded(1) ? 1 : count, rounded(count));
}

function rounded(hours: number): string {
  return hours.toLocaleString(language(), { maximumFractionDigits: hours < 10 ? 1 : 0 });
}
