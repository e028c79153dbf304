// The presets of a form: the last job, the cluster's defaults, and the user's saved presets.
import { InputDialog } from '@jupyterlab/apputils';
import { useState, type JSX } from 'react';
import { visible } from '../format';
import { trans } from '../translation';
import { keepable, lineOf, NO_WISHES, type Wishes } from './form';
import { Choice } from './inputs';
import { ONES_OWN, type Memory } from './memory';

interface Props {
  memory: Memory;
  wishes: Wishes;
  change: (wishes: Wishes) => void;
}

interface Preset {
  value: string;
  text: string;
  wishes: Wishes;
}

export function Presets({ memory, wishes, change }: Props): JSX.Element {
  const [, redraw] = useState({});
  const presets = all(memory, wishes.cluster);
  const shared = (one: Wishes): string => lineOf({ ...keepable(one), ...ONES_OWN });
  const fits = (one: Preset): boolean => shared(one.wishes) === shared(wishes);
  const chosen = [...presets].reverse().find(fits);
  const favourite = chosen?.value.startsWith(FAVOURITE) ? chosen.value : null;
  const toggle = async (): Promise<void> => {
    if (favourite !== null) {
      await memory.remove(favourite.slice(FAVOURITE.length));
    } else {
      const { button, value } = await InputDialog.getText({
        title: trans.__('Save as preset'),
        label: trans.__('Name'),
        okLabel: trans.__('Save')
      });
      const name = value?.trim() ?? '';
      if (button.accept && name !== '') {
        await memory.save(name, wishes);
      }
    }
    redraw({});
  };
  return (
    <Choice
      label={trans.__('Preset')}
      value={chosen?.value ?? ''}
      options={[...(chosen ? [] : [{ value: '', text: trans.__('Custom') }]), ...presets]}
      change={value => {
        const found = presets.find(one => one.value === value);
        if (found !== undefined) {
          const { name, array, 'display-name': title } = wishes;
          change({ ...found.wishes, name, array, 'display-name': title });
        }
      }}
      hint={
        <button type="button" className="jp-slurm-IconButton" onClick={() => void toggle()}>
          {favourite === null ? trans.__('Save as preset…') : trans.__('Remove preset')}
        </button>
      }
    />
  );
}

const FAVOURITE = 'favourite:';

function all(memory: Memory, cluster: string): Preset[] {
  const [last, usual] = [memory.of(cluster), { ...NO_WISHES, cluster }];
  const isUsual = lineOf(last) === lineOf(usual);
  return [
    ...(isUsual ? [] : [{ value: 'last', text: trans.__('Last job'), wishes: last }]),
    { value: 'usual', text: trans.__('Cluster defaults'), wishes: usual },
    ...memory.favourites.map(([name, wishes]) => ({
      value: FAVOURITE + name,
      text: visible(name),
      wishes
    }))
  ];
}
