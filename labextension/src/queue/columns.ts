// The columns of the queue: the text, sort key and filter of each. No I/O.
import { exactly } from '../exactly';
import { isHeld, moment, stateWord, visible } from '../format';
import type { Column } from '../grid/columns';
import { brief, waits } from '../sidebar/words';
import { trans } from '../translation';
import type { Row } from '../wire';
import { rankOf } from './listing';

type QueueColumn = Column<Row>;
type TextField =
  'slurm_id' | 'state' | 'name' | 'user' | 'partition' | 'account' | 'qos' | 'reason' | 'id';
type CountField = 'gpus' | 'node_count' | 'priority';
type TimeField = 'submitted_s' | 'started_s' | 'start_estimate_s';

export function columnsOf(): readonly QueueColumn[] {
  const why = (row: Row): string => row.why ?? '';
  return [
    {
      ...text('id', 'slurm_id', trans.__('ID'), 82),
      value: row => (row.slurm_id == null ? null : Number.parseInt(row.slurm_id, 10))
    },
    text('name', 'name', trans.__('Name'), 122),
    text('user', 'user', trans.__('User'), 62),
    stateColumn(),
    text('partition', 'partition', trans.__('Partition'), 80),
    {
      ...span('time', trans.__('Time'), elapsedS),
      hint: row => (row.started_s == null ? '' : trans.__('since %1', exactly(row.started_s))),
      value: row => (row.started_s == null ? null : -row.started_s)
    },
    span('limit', trans.__('Limit'), row => row.limit_s ?? null),
    count('gpus', 'gpus', trans.__('GPUs'), true),
    count('nodes', 'node_count', trans.__('Nodes'), false),
    {
      ...text('where', 'slurm_id', trans.__('Where'), 58),
      text: row => visible(nodesOf(row)),
      words: row => nodesOf(row).toLowerCase(),
      value: row => nodesOf(row).toLowerCase() || null
    },
    moments('start', 'start_estimate_s', trans.__('Expected start'), true),
    {
      ...text('why', 'reason', trans.__('Why it waits'), 118),
      text: whyWord,
      hint: row => [why(row), row.reason ?? ''].filter(part => part !== '').join('\n'),
      words: row => `${whyWord(row)} ${why(row)} ${row.reason ?? ''}`.toLowerCase(),
      value: row => whyWord(row) || null
    },
    count('priority', 'priority', trans.__('Priority'), false),
    moments('submitted', 'submitted_s', trans.__('Submitted'), false),
    moments('started', 'started_s', trans.__('Started'), false),
    text('account', 'account', trans.__('Account'), 100, false),
    text('qos', 'qos', trans.__('QOS'), 90, false),
    text('reason', 'reason', trans.__('Reason'), 140, false),
    text('job', 'id', trans.__('jupyter-slurm ID'), 90, false)
  ];
}

function text(
  id: string,
  field: TextField,
  title: string,
  width: number,
  usual = true
): QueueColumn {
  return {
    id,
    title,
    width,
    usual,
    number: false,
    text: row => visible(row[field] ?? ''),
    words: row => (row[field] ?? '').toLowerCase(),
    value: row => row[field]?.toLowerCase() ?? null
  };
}

function count(id: string, field: CountField, title: string, usual: boolean): QueueColumn {
  const none = field === 'priority' ? null : 0;
  return {
    id,
    title,
    width: 52,
    usual,
    number: true,
    text: row => (row[field] ? String(row[field]) : ''),
    words: row => (row[field] ? String(row[field]) : ''),
    value: row => row[field] ?? none,
    amount: row => row[field] ?? none
  };
}

function moments(id: string, field: TimeField, title: string, usual: boolean): QueueColumn {
  return {
    id,
    title,
    width: 110,
    usual,
    number: true,
    text: (row, nowS) => (row[field] == null ? '' : moment(row[field], nowS)),
    hint: row => (row[field] == null ? '' : exactly(row[field])),
    words: () => '',
    value: row => row[field] ?? null
  };
}

function stateColumn(): QueueColumn {
  const words = new Map<string, string>();
  const wordsOf = (row: Row): string => {
    const { state } = row;
    const key = isHeld(state, row.reason) ? 'HELD' : state;
    const found = words.get(key) ?? `${state} ${stateOf(row)}`.toLowerCase();
    words.set(key, found);
    return found;
  };
  return {
    ...text('state', 'state', trans.__('State'), 102),
    text: stateOf,
    hint: row => row.state,
    words: wordsOf,
    value: row => rankOf(row.state)
  };
}

/** A column with a duration. */
function span(
  id: string,
  title: string,
  of: (row: Row, nowS: number) => number | null
): QueueColumn {
  return {
    id,
    title,
    width: 64,
    usual: true,
    number: true,
    text: (row, nowS) => {
      const spanS = of(row, nowS);
      return spanS === null ? '' : brief(spanS);
    },
    words: () => '',
    value: row => of(row, 0),
    amount: of,
    span: true
  };
}

function nodesOf({ nodes = [] }: Row): string {
  return nodes.join(', ');
}

/** The state, in the words of the sidebar. */
export function stateOf({ state, reason }: Pick<Row, 'state' | 'reason'>): string {
  return isHeld(state, reason) ? trans.__('on hold') : stateWord(state);
}

/** The reason in the sidebar's words or in Slurm's; '' if the reason adds nothing to the state. */
function whyWord({ state, reason, why }: Row): string {
  if (isHeld(state, reason) || !reason || !why) {
    return '';
  }
  const word = waits({ state, reason });
  return word === stateWord(state) ? visible(reason) : word;
}

/** Seconds since the start; null if the job is not running. */
function elapsedS(row: Row, nowS: number): number | null {
  return row.started_s == null ? null : Math.max(0, (row.ended_s ?? nowS) - row.started_s);
}
