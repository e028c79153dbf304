// Which node and GPU of a job uses how much, side by side, so that the one that lags is seen: a row
// each; of many a summary, and those that differ. What the numbers are is uses.ts's.
import { useMemo, useState, type JSX } from 'react';
import { isFinal, memory, visible } from '../format';
import { numeral } from '../language';
import { trans } from '../translation';
import type { Job, UsageSample } from '../wire';
import { MOST_SHOWN } from './samples';
import { outliers, share, summed, usesOf, type Amount, type Use } from './uses';

interface Props {
  samples: readonly UsageSample[];
  job: Job;
}

interface Row extends Pick<Use, 'kind' | 'busy' | 'memory'> {
  key: string;
  label: string;
  /** What its bar stands for in full. */
  title: string;
  indented: boolean;
}

export function UseTable({ samples, job }: Props): JSX.Element | null {
  const [open, setOpen] = useState(false);
  const uses = useMemo(() => usesOf(samples, job), [samples, job]);
  const nodes = uses.filter(one => one.kind === 'node');
  const gpus = uses.filter(one => one.kind === 'gpu');
  if (uses.length < 2) {
    return null;
  }
  const many = nodes.length > MOST_SHOWN || gpus.length > MOST_SHOWN;
  const rows =
    many && !open
      ? [
          ...folded(nodes, trans.__('All %1 nodes', nodes.length)),
          ...folded(gpus, trans.__('All %1 GPUs', gpus.length))
        ]
      : uses.map(one => rowOf(one, one.kind === 'gpu'));
  const over = isFinal(job.state);
  return (
    <>
      <div
        className="jp-slurm-Scrolled jp-slurm-UsesBox"
        tabIndex={0}
        role="region"
        aria-label={trans.__('Nodes and GPUs')}
      >
        <table className="jp-slurm-Uses">
          <thead>
            <tr>
              <th scope="col">
                {gpus.length > 0 ? trans.__('Nodes and GPUs') : trans.__('Nodes')}
              </th>
              <th scope="col">{over ? trans.__('Busy on average') : trans.__('Busy now')}</th>
              <th scope="col">{over ? trans.__('Memory at most') : trans.__('Memory now')}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(row => (
              <tr key={row.key} data-kind={row.kind} data-indented={row.indented}>
                <th scope="row" title={row.title}>
                  {row.label}
                </th>
                <td>
                  <Figure amount={row.busy} format={row.kind === 'gpu' ? percent : cores} />
                </td>
                <td>
                  <Figure amount={row.memory} format={memory} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {many ? (
        <button
          className="jp-slurm-Button jp-slurm-UsesMore"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          {open ? trans.__('Show a summary') : trans.__('Show all')}
        </button>
      ) : null}
    </>
  );
}

/** A row each, or of many one for all of them and those that stand out. */
function folded(uses: readonly Use[], all: string): Row[] {
  const [first] = uses;
  if (first === undefined || uses.length <= MOST_SHOWN) {
    return uses.map(one => rowOf(one, false));
  }
  const summary: Row = {
    ...summed(uses),
    key: `all ${first.kind}`,
    label: all,
    title: '',
    kind: first.kind,
    indented: false
  };
  return [summary, ...outliers(uses).map(one => ({ ...rowOf(one, false), indented: true }))];
}

function rowOf(use: Use, isBelowNode: boolean): Row {
  const { kind, node, index, name, busy, memory: held } = use;
  const where = visible(node);
  const label =
    kind === 'node'
      ? where
      : isBelowNode
        ? trans.__('GPU %1', index)
        : trans.__('GPU %1 on %2', index, where);
  return {
    key: `${kind} ${node} ${index}`,
    label,
    title: visible(name),
    kind,
    indented: isBelowNode,
    busy,
    memory: held
  };
}

interface FigureProps {
  amount: Amount;
  format: (value: number) => string;
}

function Figure({ amount, format }: FigureProps): JSX.Element {
  const { value, limit } = amount;
  const part = share(amount);
  return (
    <span className="jp-slurm-Use">
      <span className="jp-slurm-Bar" aria-hidden="true" data-empty={part === null}>
        <span style={{ width: `${100 * (part ?? 0)}%` }} />
      </span>
      <span>{value === null ? '–' : format(value)}</span>
      {limit === null || format === percent ? null : (
        <span className="jp-slurm-Quiet"> / {format(limit)}</span>
      )}
    </span>
  );
}

export function cores(value: number): string {
  return numeral(Math.round(10 * value) / 10);
}

export function percent(value: number): string {
  return `${Math.round(value * 100)} %`;
}
