// The columns of the queue: what each shows of an entry, how it is sorted and found. Pure.
import type { TranslationBundle } from '@jupyterlab/translation';
import { exactly } from '../exactly';
import { duration, moment, stateWord, visible } from '../format';
import type { Column } from '../grid/columns';
import { said } from '../messages';
import type { QueueEntry } from '../wire';

type QueueColumn = Column<QueueEntry>;
type TextField = 'name' | 'user' | 'partition' | 'nodes' | 'account' | 'qos' | 'reason' | 'id';
type CountField = 'gpus' | 'node_count' | 'priority';
type TimeField = 'submitted_s' | 'started_s' | 'start_estimate_s';

export function columnsOf(trans: TranslationBundle): readonly QueueColumn[] {
  const why = (entry: QueueEntry): string => said(entry.why ?? '', trans);
  return [
    idColumn(trans),
    text('name', 'name', trans.__('Name'), 186),
    text('user', 'user', trans.__('User'), 90),
    stateColumn(trans),
    text('partition', 'partition', trans.__('Partition'), 100),
    timeColumn(trans),
    limitColumn(trans),
    count('gpus', 'gpus', trans.__('GPUs'), true),
    count('nodes', 'node_count', trans.__('Nodes'), true),
    text('where', 'nodes', trans.__('Where'), 120),
    moments('start', 'start_estimate_s', trans.__('Expected start'), true),
    {
      ...text('why', 'reason', trans.__('Why it waits'), 260),
      text: entry => visible(why(entry)),
      hint: entry => [why(entry), entry.reason ?? ''].filter(part => part !== '').join('\n'),
      words: entry => `${why(entry)} ${entry.reason ?? ''}`.toLowerCase(),
      value: entry => why(entry) || null
    },
    count('priority', 'priority', trans.__('Priority'), false),
    moments('submitted', 'submitted_s', trans.__('Submitted'), false),
    moments('started', 'started_s', trans.__('Started'), false),
    text('account', 'account', trans.__('Account'), 100, false),
    text('qos', 'qos', trans.__('QOS'), 90, false),
    text('reason', 'reason', trans.__('Reason'), 140, false),
    text('job', 'id', trans.__('Our id'), 90, false)
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
    text: entry => visible(entry[field] ?? ''),
    words: entry => (entry[field] ?? '').toLowerCase(),
    value: entry => entry[field]?.toLowerCase() ?? null
  };
}

function count(id: string, field: CountField, title: string, usual: boolean): QueueColumn {
  const none = field === 'priority' ? null : 0;
  return {
    id,
    title,
    width: 72,
    usual,
    number: true,
    text: entry => (entry[field] ? String(entry[field]) : ''),
    words: entry => (entry[field] ? String(entry[field]) : ''),
    value: entry => entry[field] ?? none,
    amount: entry => entry[field] ?? none
  };
}

function moments(id: string, field: TimeField, title: string, usual: boolean): QueueColumn {
  return {
    id,
    title,
    width: 132,
    usual,
    number: true,
    text: (entry, nowS) => (entry[field] == null ? '' : moment(entry[field], nowS)),
    hint: entry => (entry[field] == null ? '' : exactly(entry[field])),
    words: () => '',
    value: entry => entry[field] ?? null
  };
}

function idColumn(trans: TranslationBundle): QueueColumn {
  return {
    id: 'id',
    title: trans.__('Id'),
    width: 130,
    usual: true,
    number: false,
    text: entry => entry.slurm_id,
    words: entry => entry.slurm_id,
    value: entry => Number.parseInt(entry.slurm_id, 10)
  };
}

function stateColumn(trans: TranslationBundle): QueueColumn {
  const words = new Map<string, string>();
  const wordsOf = (state: string): string => {
    const found = words.get(state) ?? `${state} ${stateWord(state, trans)}`.toLowerCase();
    words.set(state, found);
    return found;
  };
  return {
    id: 'state',
    title: trans.__('State'),
    width: 124,
    usual: true,
    number: false,
    text: entry => stateWord(entry.state, trans),
    hint: entry => entry.state,
    words: entry => wordsOf(entry.state),
    value: entry => rankOf(entry.state)
  };
}

function timeColumn(trans: TranslationBundle): QueueColumn {
  return {
    id: 'time',
    title: trans.__('Time'),
    width: 90,
    usual: true,
    number: true,
    text: (entry, nowS) => {
      const elapsed = elapsedS(entry, nowS);
      return elapsed === null ? '' : duration(elapsed);
    },
    hint: entry => (entry.started_s == null ? '' : trans.__('since %1', exactly(entry.started_s))),
    words: () => '',
    value: entry => (entry.started_s == null ? null : -entry.started_s),
    amount: elapsedS,
    span: true
  };
}

function limitColumn(trans: TranslationBundle): QueueColumn {
  return {
    id: 'limit',
    title: trans.__('Limit'),
    width: 90,
    usual: true,
    number: true,
    text: entry => (entry.limit_s == null ? '' : duration(entry.limit_s)),
    words: () => '',
    value: entry => entry.limit_s ?? null,
    amount: entry => entry.limit_s ?? null,
    span: true
  };
}

/** How long it has run; null: it does not. */
export function elapsedS(entry: QueueEntry, nowS: number): number | null {
  return entry.started_s == null ? null : Math.max(0, (entry.ended_s ?? nowS) - entry.started_s);
}

const RANKS = ['RUNNING', 'COMPLETING', 'CONFIGURING', 'SUSPENDED', 'PENDING'];

/** What runs comes first, then what waits, then the rest. */
function rankOf(state: string): number {
  const rank = RANKS.indexOf(state);
  return rank < 0 ? RANKS.length : rank;
}
