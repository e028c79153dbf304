// The fields of the form: what a job can ask for, with what the cluster has of it. A function of
// what is typed, of what is known and of what was said of it.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { JSX, ReactNode } from 'react';
import { duration, memory } from '../format';
import { said } from '../messages';
import type { Cluster, Image, RemoteKernel } from '../wire';
import type { Known } from './cluster';
import type { Field, Option, Wishes } from './form';
import { Choice, Lines, Stepper, Text, type Option as Offered } from './inputs';
import { OPTIONS } from './options';
import { chosen, dated, freeGpus, freeOfType, offer, seconds, told, unusable } from './partitions';
import type { Place, Sentence } from './sentences';
import type { Source } from './source';

const TIMES = ['10m', '30m', '1h', '4h', '12h', '1d', '3d'];

export interface FieldsProps {
  /** What is asked for. */
  kind: Source['kind'];
  /** The kernel that it would be; null: it is none, or not known. */
  kernel: RemoteKernel | null;
  clusters: readonly Cluster[];
  known: Known;
  wishes: Wishes;
  said: ReadonlyMap<Place, Sentence>;
  change: (next: Partial<Wishes>) => void;
  changeCluster: (cluster: string) => void;
  trans: TranslationBundle;
}

interface Common {
  label: string;
  value: string;
  said: Sentence | undefined;
  change: (value: string) => void;
}

/** What every field has, by its name. */
function common(props: FieldsProps, field: Field, label: string): Common {
  return {
    label,
    value: props.wishes[field],
    said: props.said.get(field),
    change: value => {
      props.change({ [field]: value });
    }
  };
}

export function Fields(props: FieldsProps): JSX.Element {
  const { trans } = props;
  return (
    <>
      <Group title={trans.__('Where')}>
        <Where {...props} />
      </Group>
      <Group title={trans.__('What it gets')}>
        <Resources {...props} />
      </Group>
      <Group title={trans.__('What it runs in')}>
        <Program {...props} />
      </Group>
      <Group title={props.kind === 'kernel' ? trans.__('The kernel') : trans.__('The job')}>
        <More {...props} />
      </Group>
    </>
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

function Where(props: FieldsProps): JSX.Element {
  const { clusters, known, wishes, trans } = props;
  const usual = chosen(known.partitions, '');
  const cluster = clusters.find(one => one.name === wishes.cluster);
  const partition = chosen(known.partitions, wishes.partition);
  const partitions = known.partitions.map(one => {
    const why = unusable(one, wishes, trans);
    return { value: one.name, text: told(one, why, trans), disabled: why !== null };
  });
  const none = usual ? trans.__('the default: %1', usual.name) : trans.__('the default');
  const usually = { value: '', text: trans.__('the default') };
  return (
    <>
      <Choice
        {...common(props, 'cluster', trans.__('Cluster'))}
        change={props.changeCluster}
        hint={cluster?.host ?? (cluster ? trans.__('this machine') : '')}
        options={clusters.map(one => ({
          value: one.name,
          text:
            one.problem === null ? one.name : `${one.name} — ${said(one.problem.message, trans)}`,
          disabled: one.problem !== null
        }))}
      />
      <Choice
        {...common(props, 'partition', trans.__('Partition'))}
        hint={partition ? dated(offer(partition, trans), known.asOf, trans) : ''}
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

function several(offered: readonly string[] | undefined, said: string): boolean {
  return (offered?.length ?? 0) > 1 || said !== '';
}

function plain(values: readonly string[] = []): Offered[] {
  return values.map(value => ({ value, text: value }));
}

function Resources(props: FieldsProps): JSX.Element {
  const { known, wishes, trans } = props;
  const partition = chosen(known.partitions, wishes.partition);
  const limitS = partition?.limit_s ?? null;
  const usualS = partition?.default_time_s ?? null;
  const types = partition?.gpu_types ?? [];
  const ofType = (type: string): Offered => {
    const free = partition ? freeOfType(partition, type, trans) : '';
    return { value: type, text: free === '' ? type : `${type} — ${free}` };
  };
  const times = TIMES.filter(one => limitS === null || (seconds(one) ?? 0) <= limitS);
  return (
    <>
      <Stepper
        {...common(props, 'gpus', trans.__('GPUs'))}
        less={trans.__('One GPU less')}
        more={trans.__('One GPU more')}
        most={partition?.gpus ?? null}
        hint={
          partition
            ? dated(freeGpus(partition, trans), known.asOf, trans) ||
              trans.__('none in this partition')
            : ''
        }
      />
      {types.length > 0 || wishes.gpuType !== '' ? (
        <Choice
          {...common(props, 'gpuType', trans.__('Type of GPU'))}
          options={[{ value: '', text: trans.__('any') }, ...types.map(ofType)]}
        />
      ) : null}
      <Text
        {...common(props, 'cpus-per-task', trans.__('CPUs of a task'))}
        hint={partition?.cpus ? trans.__('at most %1 on a node', partition.cpus) : ''}
      />
      <Text
        {...common(props, 'mem', trans.__('Memory of a node'))}
        hint={
          partition?.memory_mib
            ? trans.__('8G; at most %1', memory(partition.memory_mib))
            : trans.__('for example 8G')
        }
      />
      <Text
        {...common(props, 'time', trans.__('Time limit'))}
        list={times.map(one => [one, ''])}
        hint={[
          usualS === null ? trans.__('30m, 2h, 1d') : trans.__('else %1', duration(usualS)),
          limitS === null ? '' : trans.__('at most %1', duration(limitS))
        ]
          .filter(Boolean)
          .join('; ')}
      />
      <Text
        {...common(props, 'nodes', trans.__('Nodes'))}
        hint={
          partition?.max_nodes
            ? trans.__('at most %1', partition.max_nodes)
            : trans.__('1, or a range as 2-4')
        }
      />
      <Text {...common(props, 'ntasks', trans.__('Tasks'))} hint={trans.__('1 unless said')} />
    </>
  );
}

function Program(props: FieldsProps): JSX.Element {
  const { clusters, known, wishes, trans } = props;
  const cluster = clusters.find(one => one.name === wishes.cluster);
  return (
    <>
      <Text
        {...common(props, 'image', trans.__('Image'))}
        wide
        list={offered(known.images, cluster?.images ?? [], trans)}
        hint={trans.__("a name, a registry's address or a path; empty: the cluster's default")}
      />
      <Text
        {...common(props, 'chdir', trans.__('Folder'))}
        wide
        hint={trans.__('where it begins, on the cluster: /data/fit or ~/fit')}
      />
      <Text
        {...common(props, 'module', trans.__('Modules'))}
        hint={trans.__('names, with blanks between')}
      />
      <Lines
        {...common(props, 'env', trans.__('Environment'))}
        rows={2}
        hint={trans.__('NAME=VALUE, one a line')}
      />
    </>
  );
}

function offered(
  images: readonly Image[],
  aliases: readonly string[],
  trans: TranslationBundle
): [string, string][] {
  const words = {
    alias: trans.__("of the cluster's profile"),
    built: trans.__('built here'),
    pulled: trans.__('pulled'),
    site: trans.__("the site's")
  } as const;
  const told = new Map(aliases.map(name => [name, words.alias]));
  for (const image of images) {
    if (image.origin !== 'container') {
      told.set(image.name, words[image.origin]);
    }
  }
  return [...told];
}

/** Of a lab or a kernel. */
function Idle(props: FieldsProps): JSX.Element {
  const { kind, trans } = props;
  const label =
    kind === 'lab'
      ? trans.__('Ends when nobody uses it for')
      : trans.__('Ends when nobody is connected for');
  return (
    <Text
      {...common(props, 'idle', label)}
      hint={trans.__("2h, 30m; empty: as the cluster's profile says")}
    />
  );
}

function Install(props: FieldsProps): JSX.Element {
  const { trans } = props;
  return (
    <Check {...common(props, 'install', trans.__('Install JupyterLab where the image has none'))} />
  );
}

function Check({ label, value, change }: Common): JSX.Element {
  return (
    <label className="jp-slurm-Check">
      <input
        type="checkbox"
        checked={value === 'yes'}
        onChange={event => {
          change(event.currentTarget.checked ? 'yes' : '');
        }}
      />
      {label}
    </label>
  );
}

/** Of a kernel: how it is called where nothing is said is in the hint. */
function Title(props: FieldsProps): JSX.Element {
  const { wishes, kernel, trans } = props;
  const title = kernel === null ? '' : trans.__('else %1', kernel.display_name);
  return (
    <Text
      {...common(props, 'display-name', trans.__('Title'))}
      wide
      hint={
        wishes['display-name'] === '' && title !== '' ? title : trans.__('as the picker shows it')
      }
    />
  );
}

function Name(props: FieldsProps): JSX.Element {
  const { trans } = props;
  const hint = props.kind === 'kernel' ? hintOfKernel(props) : trans.__('letters, digits, . _ -');
  return <Text {...common(props, 'name', trans.__('Name'))} hint={hint} />;
}

function hintOfKernel({ wishes, kernel, trans }: FieldsProps): string {
  if (kernel?.exists === true) {
    return trans.__('there is one called %1: it is replaced', kernel.name);
  }
  return wishes.name === '' && kernel !== null
    ? trans.__('else %1', kernel.name)
    : trans.__('a-z, digits, . _ -');
}

function Indices(props: FieldsProps): JSX.Element {
  const { trans } = props;
  return (
    <Text
      {...common(props, 'array', trans.__('Array'))}
      hint={trans.__('1-10: ten jobs, told apart by SLURM_ARRAY_TASK_ID')}
    />
  );
}

/** An option that has no field made for it: the table says all of it. */
function Plain({ option, ...props }: FieldsProps & { option: Option }): JSX.Element {
  const field = common(props, option.name, `--${option.name}`);
  return option.flag ? <Check {...field} /> : <Text {...field} hint={option.help} />;
}

const ABOVE: readonly Field[] = [
  ...(['cluster', 'partition', 'account', 'qos'] as const),
  ...(['gpus', 'nodes', 'ntasks', 'cpus-per-task', 'mem', 'time'] as const),
  ...(['image', 'chdir', 'module', 'env'] as const)
];
/** How the nodes of a job work together, as `--launch` names it. */
const ENGINES = ['torchrun', 'mpi', 'ray', 'dask'];
const MADE: Partial<Record<Field, (props: FieldsProps) => JSX.Element>> = {
  'display-name': Title,
  name: Name,
  launch: Launch,
  array: Indices,
  idle: Idle,
  install: Install,
  tensorboard: Board
};

function Launch(props: FieldsProps): JSX.Element {
  const { trans } = props;
  return (
    <Choice
      {...common(props, 'launch', trans.__('On many nodes'))}
      options={[{ value: '', text: trans.__('on the first alone') }, ...plain(ENGINES)]}
    />
  );
}

function Board(props: FieldsProps): JSX.Element {
  const { trans } = props;
  return (
    <Text
      {...common(props, 'tensorboard', trans.__('TensorBoard'))}
      hint={trans.__('the folder of its logs')}
    />
  );
}

/** All that the groups above do not have. */
function More(props: FieldsProps): JSX.Element {
  const { kind, trans } = props;
  const left = OPTIONS.filter(
    ({ name, kinds }) => !ABOVE.includes(name) && kinds.some(one => one === kind)
  );
  return (
    <>
      {left.map(option => {
        const Made = MADE[option.name];
        return Made ? (
          <Made key={option.name} {...props} />
        ) : (
          <Plain key={option.name} {...props} option={option} />
        );
      })}
      <Text
        {...common(props, 'more', trans.__('More options'))}
        wide
        hint={trans.__("in sbatch's own words: --exclusive --constraint a100")}
      />
    </>
  );
}
