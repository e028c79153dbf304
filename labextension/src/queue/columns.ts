// The columns of the queue: what each shows of an entry, how it is sorted and found. Pure.
import { exactly } from '../exactly';
import { isHeld, moment, stateWord, visible } from '../format';
import type { Column } from '../grid/columns';
import { brief, waits } from '../sidebar/words';
import { trans } from '../translation';
import type { QueueEntry } from '../wire';
import { rankOf } from './listing';

type QueueColumn = Column<QueueEntry>;
type TextField =
  | 'slurm_id'
  | 'state'
  | 'name'
  | 'user'
  | 'partition'
  | 'nodes'
  | 'account'
  | 'qos'
  | 'reason'
  | 'id';
type CountField = 'gpus' | 'node_count' | 'priority';
type TimeField = 'submitted_s' | 'started_s' | 'start_estimate_s';

export function columnsOf(): readonly QueueColumn[] {
  const why = (entry: QueueEntry): string => entry.why ?? '';
  return [
    {
      ...text('id', 'slurm_id', trans.__('Id'), 82),
      value: entry => Number.parseInt(entry.slurm_id, 10)
    },
    {
      ...text('name', 'name', trans.__('Name'), 122),
      text: entry => visible(nameOf(entry)),
      hint: entry => visible(entry.name)
    },
    text('user', 'user', trans.__('User'), 62),
    stateColumn(),
    text('partition', 'partition', trans.__('Partition'), 80),
    {
      ...span('time', trans.__('Time'), elapsedS),
      hint: entry =>
        entry.started_s == null ? '' : trans.__('since %1', exactly(entry.started_s)),
      value: entry => (entry.started_s == null ? null : -entry.started_s)
    },
    span('limit', trans.__('Limit'), entry => entry.limit_s ?? null),
    count('gpus', 'gpus', trans.__('GPUs'), true),
    count('nodes', 'node_count', trans.__('Nodes'), false),
    text('where', 'nodes', trans.__('Where'), 58),
    moments('start', 'start_estimate_s', trans.__('Expected start'), true),
    {
      ...text('why', 'reason', trans.__('Why it waits'), 118),
      text: whyWord,
      hint: entry => [why(entry), entry.reason ?? ''].filter(part => part !== '').join('\n'),
      words: entry => `${whyWord(entry)} ${why(entry)} ${entry.reason ?? ''}`.toLowerCase(),
      value: entry => whyWord(entry) || null
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
    width: 52,
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
    width: 110,
    usual,
    number: true,
    text: (entry, nowS) => (entry[field] == null ? '' : moment(entry[field], nowS)),
    hint: entry => (entry[field] == null ? '' : exactly(entry[field])),
    words: () => '',
    value: entry => entry[field] ?? null
  };
}

function stateColumn(): QueueColumn {
  const words = new Map<string, string>();
  const wordsOf = (entry: QueueEntry): string => {
    const { state } = entry;
    const key = isHeld(state, entry.reason) ? 'HELD' : state;
    const found = words.get(key) ?? `${state} ${stateOf(entry)}`.toLowerCase();
    words.set(key, found);
    return found;
  };
  return {
    ...text('state', 'state', trans.__('State'), 102),
    text: stateOf,
    hint: entry => entry.state,
    words: wordsOf,
    value: entry => rankOf(entry.state)
  };
}

/** A span of time. */
function span(
  id: string,
  title: string,
  of: (entry: QueueEntry, nowS: number) => number | null
): QueueColumn {
  return {
    id,
    title,
    width: 64,
    usual: true,
    number: true,
    text: (entry, nowS) => {
      const spanS = of(entry, nowS);
      return spanS === null ? '' : brief(spanS);
    },
    words: () => '',
    value: entry => of(entry, 0),
    amount: of,
    span: true
  };
}

/** As it was submitted: in Slurm our id is at the end of our jobs' names. */
export function nameOf({ name, id }: QueueEntry): string {
  return id != null && name.endsWith(`.${id}`) ? name.slice(0, -id.length - 1) : name;
}

/** Its state in the words of the sidebar. */
export function stateOf({ state, reason }: QueueEntry): string {
  return isHeld(state, reason) ? trans.__('on hold') : stateWord(state);
}

/** Why it waits in the words of the sidebar, or Slurm's own; '': its state says as much. */
function whyWord({ state, reason, why }: QueueEntry): string {
  const held = isHeld(state, reason);
  if (held || !reason || !why) {
    return '';
  }
  const word = waits({ state, held, reason });
  return word === stateWord(state) ? visible(reason) : word;
}

/** How long it has run; null: it does not. */
export function elapsedS(entry: QueueEntry, nowS: number): number | null {
  return entry.started_s == null ? null : Math.max(0, (entry.ended_s ?? nowS) - entry.started_s);
}
