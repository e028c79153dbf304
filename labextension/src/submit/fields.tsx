// The fields of the form: what a job can ask for, with what the cluster has of it. A function of
// what is typed, of what is known and of what was said of it.
import { useEffect, useState, type JSX, type ReactNode } from 'react';
import { duration, memory } from '../format';
import { trans } from '../translation';
import type { Cluster, Image, RemoteKernel } from '../wire';
import { Age } from './age';
import type { Known } from './cluster';
import { NO_WISHES, type Field, type Wishes } from './form';
import { Choice, Lines, Stepper, Text, type Option as Offered, type TextProps } from './inputs';
import { OPTIONS } from './options';
import { chosen, freeGpus, freeOfType, offer, seconds, told, unusable } from './partitions';
import type { Place, Sentence } from './sentences';
import type { Source } from './source';

const TIMES = ['10m', '30m', '1h', '4h', '12h', '1d', '3d'];

interface FieldsProps {
  /** What is asked for. */
  kind: Source['kind'];
  offersArray: boolean;
  /** The kernel that it would be; null: it is none, or not known. */
  kernel: RemoteKernel | null;
  clusters: readonly Cluster[];
  known: Known;
  wishes: Wishes;
  said: ReadonlyMap<Place, Sentence>;
  change: (next: Partial<Wishes>) => void;
  changeCluster: (cluster: string) => void;
  /** What all fields can be filled in with. */
  presets: ReactNode;
}

type Common = Pick<TextProps, 'label' | 'value' | 'said' | 'change'>;

/** What every field has, by its name. */
function common(props: FieldsProps, field: Field, label: string): Common {
  return {
    label,
    value: props.wishes[field],
    said: props.said.get(field),
    change: value => props.change({ [field]: value })
  };
}

/** What most jobs need; all else is under *More*. */
const FIRST: readonly Field[] = ['display-name', 'cluster', 'gpus', 'gpuType', 'time', 'image'];
const REST = (Object.keys(NO_WISHES) as Field[]).filter(field => !FIRST.includes(field));

export function Fields(props: FieldsProps): JSX.Element {
  return (
    <>
      <div className="jp-slurm-FirstFields">
        {props.kind === 'kernel' ? <Line {...props} field="display-name" /> : null}
        {props.presets}
        <ClusterField {...props} />
        <Gpus {...props} />
        <Line {...props} field="time" />
        <Line {...props} field="image" />
      </div>
      <Rest {...props} />
    </>
  );
}

function Rest(props: FieldsProps): JSX.Element {
  const { kind, wishes, said } = props;
  const [open, setOpen] = useState(false);
  const set = REST.filter(field => wishes[field] !== '').length;
  const isSaid = REST.some(field => said.has(field));
  useEffect(() => {
    if (isSaid) {
      setOpen(true);
    }
  }, [isSaid]);
  return (
    <details
      className="jp-slurm-More"
      open={open}
      onToggle={event => setOpen(event.currentTarget.open)}
    >
      <summary>
        <span>{trans.__('More')}</span>{' '}
        <span className="jp-slurm-Quiet">
          {set > 0 ? trans._n('%1 option set', '%1 options set', set) : ''}
        </span>
      </summary>
      <Group title={trans.__('Where')}>
        <Where {...props} />
      </Group>
      <Group title={trans.__('Resources')}>
        {RESOURCES.map(field => (
          <Line key={field} {...props} field={field} />
        ))}
      </Group>
      <Group title={trans.__('Software')}>
        <Line {...props} field="chdir" />
        <Line {...props} field="module" />
        <Lines
          {...common(props, 'env', trans.__('Environment'))}
          rows={2}
          hint={trans.__('NAME=VALUE, one per line')}
        />
      </Group>
      <Group title={kind === 'kernel' ? trans.__('The kernel') : trans.__('The job')}>
        <More {...props} />
      </Group>
    </details>
  );
}

function Group({ title, children }: { title: string; children: ReactNode }): JSX.Element {
  return (
    <fieldset className="jp-slurm-Group">
      <legend>{title}</legend>
      <div className="jp-slurm-Fields">{children}</div>
    </fieldset>
  );
}

function ClusterField(props: FieldsProps): JSX.Element {
  const { clusters, wishes } = props;
  const cluster = clusters.find(one => one.name === wishes.cluster);
  return (
    <Choice
      {...common(props, 'cluster', trans.__('Cluster'))}
      change={props.changeCluster}
      hint={cluster?.host ?? (cluster ? trans.__('this machine') : '')}
      options={clusters.map(one => ({
        value: one.name,
        text: one.problem === null ? one.name : `${one.name} — ${one.problem.message}`,
        disabled: one.problem !== null
      }))}
    />
  );
}

function Where(props: FieldsProps): JSX.Element {
  const { known, wishes } = props;
  const usual = chosen(known.partitions, '');
  const partition = chosen(known.partitions, wishes.partition);
  const partitions = known.partitions.map(one => {
    const why = unusable(one, wishes);
    return { value: one.name, text: told(one, why), disabled: why !== null };
  });
  const none = usual ? trans.__('%1 (default)', usual.name) : trans.__('Default');
  const usually = { value: '', text: trans.__('Default') };
  return (
    <>
      <Choice
        {...common(props, 'partition', trans.__('Partition'))}
        hint={partition ? dated(offer(partition), props) : ''}
        options={[{ value: '', text: none }, ...partitions]}
      />
      {several(known.info?.accounts, wishes.account) ? (
        <Choice
          {...common(props, 'account', trans.__('Account'))}
          options={[usually, ...plain(known.info?.accounts)]}
        />
      ) : null}
      {several(known.info?.qos, wishes.qos) ? (
        <Choice
          {...common(props, 'qos', trans.__('QOS'))}
          options={[usually, ...plain(known.info?.qos)]}
        />
      ) : null}
    </>
  );
}

/** What a cluster has now, with the age of that. */
function dated(text: string, { known }: FieldsProps): ReactNode {
  return text === '' ? null : (
    <>
      {text}
      <Age asOf={known.asOf} />
    </>
  );
}

function several(offered: readonly string[] | undefined, said: string): boolean {
  return (offered?.length ?? 0) > 1 || said !== '';
}

function plain(values: readonly string[] = []): Offered[] {
  return values.map(value => ({ value, text: value }));
}

function Gpus(props: FieldsProps): JSX.Element {
  const { known, wishes } = props;
  const partition = chosen(known.partitions, wishes.partition);
  const types = partition?.gpu_types ?? [];
  const ofType = (type: string): Offered => {
    const free = partition ? freeOfType(partition, type) : '';
    return { value: type, text: free === '' ? type : `${type} — ${free}` };
  };
  return (
    <>
      <Stepper
        {...common(props, 'gpus', trans.__('GPUs'))}
        less={trans.__('Remove a GPU')}
        more={trans.__('Add a GPU')}
        most={partition?.gpus ?? null}
        hint={
          partition ? (dated(freeGpus(partition), props) ?? trans.__('none in this partition')) : ''
        }
      />
      {types.length > 0 || wishes.gpuType !== '' ? (
        <Choice
          {...common(props, 'gpuType', trans.__('GPU type'))}
          options={[{ value: '', text: trans.__('any') }, ...types.map(ofType)]}
        />
      ) : null}
    </>
  );
}

const RESOURCES = ['cpus-per-task', 'mem', 'nodes', 'ntasks'] as const;

type Line = Pick<TextProps, 'label' | 'hint' | 'wide' | 'list'>;

/** What stands at the fields that are a line of text, or a tick. */
function linesOf(props: FieldsProps): Partial<Record<Field, Line>> {
  const { clusters, kernel, kind, known, wishes } = props;
  const partition = chosen(known.partitions, wishes.partition);
  const aliases = clusters.find(one => one.name === wishes.cluster)?.images ?? [];
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
    time: {
      label: trans.__('Time limit'),
      list: times.map(one => [one, ''] as const),
      hint: timeHint(partition?.default_time_s ?? null, limitS)
    },
    image: {
      label: trans.__('Image'),
      wide: true,
      list: offered(known.images, aliases),
      hint: trans.__('Name, address or path. Default: from the cluster')
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
      label: trans.__('Folder'),
      wide: true,
      hint: trans.__('Working folder on the cluster, e.g. ~/fit')
    },
    module: { label: trans.__('Modules'), hint: trans.__('Separate with spaces') },
    name: {
      label: trans.__('Name'),
      hint: kind === 'kernel' ? hintOfKernel(props) : trans.__('Letters, digits, . _ -')
    },
    array: { label: trans.__('Array'), hint: trans.__('Scripts only, e.g. 1-10 or 1,3,5') },
    idle: {
      label: kind === 'lab' ? trans.__('End when idle for') : trans.__('End when disconnected for'),
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

/** An option without words here is as the table of options says. */
function Line({
  field,
  help = '',
  ...props
}: FieldsProps & { field: Field; help?: string }): JSX.Element {
  const { label, ...line } = linesOf(props)[field] ?? { label: `--${field}`, hint: help };
  return <Text {...common(props, field, label)} {...line} />;
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
    built: trans.__('built here'),
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

const ABOVE: readonly Field[] = [
  ...FIRST,
  ...(['partition', 'account', 'qos'] as const),
  ...RESOURCES,
  ...(['chdir', 'module', 'env'] as const)
];
/** How the nodes of a job work together, as `--launch` names it. */
const ENGINES = ['torchrun', 'mpi', 'ray', 'dask'];
/** All that the groups above do not have. */
function More(props: FieldsProps): JSX.Element {
  const { kind, wishes, offersArray } = props;
  const left = OPTIONS.filter(
    ({ name, kinds }) =>
      !ABOVE.includes(name) &&
      kinds.some(one => one === kind) &&
      (name !== 'array' || offersArray || wishes.array !== '')
  );
  return (
    <>
      {left.map(({ name, help }) => {
        if (name === 'launch') {
          const first = { value: '', text: trans.__('First node only') };
          const options = [first, ...plain(ENGINES)];
          const field = common(props, name, trans.__('Launcher'));
          return <Choice key={name} {...field} options={options} />;
        }
        return <Line key={name} {...props} field={name} help={help} />;
      })}
      <Line {...props} field="more" />
    </>
  );
}
