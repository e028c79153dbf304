// The icon of a state. signs.css has its colour. A word beside it always has the same meaning.
import { LabIcon } from '@jupyterlab/ui-components';
import { tone, type Tone } from '../format';
import '../../style/signs.css';

/** Paths in a box of 24 by 24. */
export const PATHS: Record<Tone | 'held', string> = {
  held: 'M6 5h4v14H6zm8 0h4v14h-4z',
  waiting:
    'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 2a7 7 0 1 1 0 14 7 7 0 0 1 0-14zm-1 2v6l4 3 1.2-1.6L13 12V7z',
  running: 'M7 4v16l13-8z',
  done: 'M9.5 18.5 3.5 12.5 5.4 10.6 9.5 14.7 18.6 5.5 20.5 7.4z',
  failed:
    'M6.4 4.5 12 10.1 17.6 4.5 19.5 6.4 13.9 12 19.5 17.6 17.6 19.5 12 13.9 6.4 19.5 4.5 17.6 10.1 12 4.5 6.4z',
  ended:
    'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 2a7 7 0 0 1 4.2 1.4L6.4 16.2A7 7 0 0 1 12 5zm5.6 2.8A7 7 0 0 1 7.8 17.6z',
  unknown:
    'M12 3a5 5 0 0 0-5 5h2.2a2.8 2.8 0 1 1 4.3 2.4c-1.6 1-2.6 2-2.6 4.1h2.2c0-1.2.6-1.7 1.6-2.3A5 5 0 0 0 12 3zm-1.3 14v2.6h2.6V17z'
};

const icons = new Map(
  Object.entries(PATHS).map(([name, path]) => [
    name,
    new LabIcon({
      name: `jupyter-slurm:state-${name}`,
      svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path class="jp-slurm-Sign" data-tone="${name}" fill="#616161" d="${path}"/></svg>`
    })
  ])
);

/** The icon for `HELD`, a job that a user or administrator holds. */
export function stateIcon(state: string): LabIcon | undefined {
  return icons.get(state === 'HELD' ? 'held' : tone(state));
}
