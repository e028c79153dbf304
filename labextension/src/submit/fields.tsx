// The fields of the form: the options of the table (options.ts) in groups, each with data of the
// cluster.
import { useEffect, useState, type JSX, type ReactNode } from 'react';
import { duration, memory } from '../format';
import { listed } from '../language';
import { trans } from '../translation';
import type { Cluster, Image, RemoteKernel } from '../wire';
import { Age } from './age';
import type { Known } from './cluster';
import type { Field, Wishes } from './form';
import { Choice, Count, Lines, Text, type Option as Offered, type TextProps } from './inputs';
import { OPTIONS } from './options';
import { chosen, freeGpus, freeOfType, offer, seconds, told, unusable } from './partitions';
import type { Place, Sentence } from './sentences';
import type { Source } from './source';

const TIMES = ['10m', '30m', '1h', '4h', '12h', '1d', '3d'];

interface FieldsProps {
  kind: Source['kind'];
  offersArray: boolean;
  /** The kernel that the form would add; null without a kernel, or if it is unknown. */
  kernel: RemoteKernel | null;
  clusters: readonly Cluster[];
  known: Known;
  wishes: Wishes;
  said: ReadonlyMap<Place, Sentence>;
  change: (next: Partial<Wishes>) => void;
  changeCluster: (cluster: string) => void;
  presets: ReactNode;
}

const TOP: readonly Field[] = ['display-name', 'name', 'cluster'];
const FIRST: readonly Field[] = ['time', 'gpus', 'gpuType', 'image'];
const RESOURCES: readonly Field[] = [
  'partition',
  'account',
  'qos',
  'cpus-per-task',
  'mem',
  'nodes',
  'ntasks'
];
const SOFTWARE: readonly Field[] = ['chdir', 'module', 'with', 'env'];
const GROUPED = [...TOP, ...FIRST, ...RESOURCES, ...SOFTWARE];

export function Fields(props: FieldsProps): JSX.Element {
  return (
    <>
      <div className="jp-slurm-Fields">
        <Each {...props} fields={TOP} />
        {props.presets}
        <Each {...props} fields={FIRST} />
      </div>
      <Rest {...props} />
    </>
  );
}

function Rest(props: FieldsProps): JSX.Element {
  const { kind, offersArray, wishes, said } = props;
  const [open, setOpen] = useState(false);
  const job = [...OPTIONS.map(({ name }) => name), 'more' as const].filter(
    name => !GROUPED.includes(name) && (name !== 'array' || offersArray || wishes.array !== '')
  );
  const all = [...RESOURCES, ...SOFTWARE, ...job];
  const set = all.filter(field => wishes[field] !== '').length;
  const isSaid = all.some(field => said.has(field));
  useEffect(() => {
    if (isSaid) {
      setOpen(true);
    }
  }, [isSaid]);
  const groups: [title: string, fields: readonly Field[]][] = [
    [trans.__('Resources'), RESOURCES],
    [trans.__('Software'), SOFTWARE],
    [kind === 'kernel' ? trans.__('Kernel options') : trans.__('Job options'), job]
  ];
  return (
    <details
      className="jp-slurm-More"
      open={open}
      onToggle={event => setOpen(event.currentTarget.open)}
    >
      <summary>
        <span>{trans.__('More options')}</span>{' '}
        <span className="jp-slurm-Quiet">
          {set > 0
            ? trans._n('%1 option set', '%1 options set', set)
            : listed(groups.map(([title]) => title))}
        </span>
      </summary>
      {groups.map(([title, fields]) => (
        <fieldset key={title} className="jp-slurm-Group">
          <legend>{title}</legend>
          <div className="jp-slurm-Fields">
            <Each {...props} fields={fields} />
          </div>
        </fieldset>
      ))}
    </details>
  );
}

/** The fields that a job of this kind has. */
function Each({ fields, ...props }: FieldsProps & { fields: readonly Field[] }): JSX.Element {
  const kinds = new Map(OPTIONS.map(one => [one.name as Field, one.kinds as readonly string[]]));
  return (
    <>
      {fields
        .filter(field => kinds.get(field)?.includes(props.kind) ?? true)
        .map(field => (
          <One key={field} {...props} field={field} />
        ))}
    </>
  );
}

/** A field. If this file has no words for the option, show the option's name and help text. */
function One({ field, ...props }: FieldsProps & { field: Field }): JSX.Element | null {
  const { clusters, known, wishes } = props;
  const partition = chosen(known.partitions, wishes.partition);
  const option = OPTIONS.find(one => one.name === field);
  const common = {
    label: `--${field}`,
    hint: option?.help ?? '',
    ...wordsOf(props)[field],
    value: wishes[field],
    said: props.said.get(field),
    change: (value: string) => props.change({ [field]: value })
  };
  const choice = (none: string, offered: readonly Offered[]): JSX.Element => (
    <Choice {...common} options={[{ value: '', text: none }, ...offered]} />
  );
  switch (field) {
    case 'cluster':
      return (
        <Choice
          {...common}
          change={props.changeCluster}
          options={clusters.map(one => ({
            value: one.name,
            text: one.problem === null ? one.name : `${one.name} — ${one.problem.message}`,
            disabled: one.problem !== null
          }))}
        />
      );
    case 'partition': {
      const usual = chosen(known.partitions, '');
      return choice(
        usual ? trans.__('%1 (default)', usual.name) : trans.__('Default'),
        known.partitions.map(one => {
          const why = unusable(one, wishes);
          return { value: one.name, text: told(one, why), disabled: why !== null };
        })
      );
    }
    case 'account':
    case 'qos': {
      const offered = known.info?.[field === 'qos' ? 'qos' : 'accounts'] ?? [];
      return offered.length > 1 || wishes[field] !== ''
        ? choice(trans.__('Default'), plain(offered))
        : null;
    }
    case 'gpus':
      return <Count {...common} most={partition?.gpus ?? null} />;
    case 'gpuType': {
      const types = (partition?.gpu_types ?? []).map(type => {
        const free = partition ? freeOfType(partition, type) : '';
        return { value: type, text: free === '' ? type : `${type} — ${free}` };
      });
      return types.length > 0 || wishes.gpuType !== '' ? choice(trans.__('any'), types) : null;
    }
    case 'env':
      return <Lines {...common} rows={2} />;
    default:
      return option !== undefined && 'choices' in option ? (
        choice(trans.__('None (first node only)'), plain(option.choices))
      ) : (
        <Text {...common} />
      );
  }
}

/** The cluster's live figures, with their age. */
function dated(text: string, { known }: FieldsProps): ReactNode {
  return text === '' ? null : (
    <>
      {text}
      <Age asOf={known.asOf} />
    </>
  );
}

function plain(values: readonly string[] = []): Offered[] {
  return values.map(value => ({ value, text: value }));
}

type Words = Pick<TextProps, 'label' | 'hint' | 'wide' | 'list'>;

/** Labels and hints. */
function wordsOf(props: FieldsProps): Partial<Record<Field, Words>> {
  const { clusters, kernel, kind, known, wishes } = props;
  const partition = chosen(known.partitions, wishes.partition);
  const cluster = clusters.find(one => one.name === wishes.cluster);
  const limitS = partition?.limit_s ?? null;
  const times = TIMES.filter(one => limitS === null || (seconds(one) ?? 0) <= limitS);
  const { cpus = null, memory_mib: memoryMib = null, max_nodes: nodes = null } = partition ?? {};
  return {
    'display-name': {
      label: trans.__('Title'),
      wide: true,
      hint:
        kernel !== null && wishes['display-name'] === ''
          ? trans.__('Default: %1', kernel.display_name)
          : trans.__('Shown in the kernel picker')
    },
    cluster: {
      label: trans.__('Cluster'),
      hint: cluster?.host ?? (cluster ? trans.__('this machine') : '')
    },
    partition: {
      label: trans.__('Partition'),
      hint: partition ? dated(offer(partition), props) : ''
    },
    account: { label: trans.__('Account'), hint: '' },
    qos: { label: trans.__('QOS'), hint: '' },
    gpus: {
      label: trans.__('GPUs'),
      hint: partition
        ? (dated(freeGpus(partition), props) ?? trans.__('none in this partition'))
        : ''
    },
    gpuType: { label: trans.__('GPU type'), hint: '' },
    launch: { label: trans.__('Launcher'), hint: '' },
    env: { label: trans.__('Environment'), hint: trans.__('NAME=VALUE, one per line') },
    time: {
      label: trans.__('Time limit'),
      list: times.map(one => [one, ''] as const),
      hint: timeHint(partition?.default_time_s ?? null, limitS)
    },
    image: {
      label: trans.__('Image'),
      wide: true,
      list: offered(known.images, cluster?.images ?? []),
      hint: trans.__('Name, URL or path. Default: from the cluster')
    },
    'cpus-per-task': {
      label: trans.__('CPUs per task'),
      hint: cpus ? trans.__('Max %1 per node', cpus) : ''
    },
    mem: {
      label: trans.__('Memory per node'),
      hint: memoryMib ? trans.__('e.g. 8G, max %1', memory(memoryMib)) : trans.__('e.g. 8G')
    },
    nodes: {
      label: trans.__('Nodes'),
      hint: nodes ? trans.__('Max %1', nodes) : trans.__('e.g. 1 or 2-4')
    },
    ntasks: { label: trans.__('Tasks'), hint: trans.__('Default: %1', 1) },
    chdir: {
      label: trans.__('Working directory'),
      wide: true,
      hint: trans.__('On the cluster, e.g. ~/fit')
    },
    module: { label: trans.__('Modules'), hint: trans.__('Separate with spaces') },
    with: {
      label: trans.__('Packages'),
      hint: trans.__('e.g. polars,torch. Without an image')
    },
    name: {
      label: trans.__('Name'),
      hint: kind === 'kernel' ? hintOfKernel(props) : trans.__('Letters, digits, . _ -')
    },
    array: { label: trans.__('Array'), hint: trans.__('e.g. 1-10 or 1,3,5') },
    idle: {
      label:
        kind === 'lab' ? trans.__('Stop when idle for') : trans.__('Stop when disconnected for'),
      hint: trans.__('e.g. 2h. Default: from the cluster')
    },
    tensorboard: { label: trans.__('TensorBoard'), hint: trans.__('Log folder') },
    more: {
      label: trans.__('Other options'),
      wide: true,
      hint: trans.__('Options of sbatch, e.g. --exclusive --constraint a100')
    }
  };
}

function timeHint(usualS: number | null, limitS: number | null): string {
  if (limitS === null) {
    return usualS === null
      ? trans.__('e.g. 30m, 2h or 1d')
      : trans.__('Default: %1', duration(usualS));
  }
  return usualS === null
    ? trans.__('Max %1', duration(limitS))
    : trans.__('Default %1, max %2', duration(usualS), duration(limitS));
}

function offered(images: readonly Image[], aliases: readonly string[]): [string, string][] {
  const words = {
    alias: trans.__('from the profile'),
    built: trans.__('built'),
    pulled: trans.__('pulled'),
    site: trans.__('from the site')
  } as const;
  const told = new Map(aliases.map(name => [name, words.alias]));
  for (const image of images) {
    told.set(image.name, words[image.origin]);
  }
  return [...told];
}

function hintOfKernel({ wishes, kernel }: FieldsProps): string {
  if (kernel?.exists === true) {
    return trans.__('Replaces the kernel %1', kernel.name);
  }
  return wishes.name === '' && kernel !== null
    ? trans.__('Default: %1', kernel.name)
    : trans.__('a-z, digits, . _ -');
}
