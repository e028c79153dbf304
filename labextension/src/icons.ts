// The icons of this extension: its mark, its panels, the kinds of jobs, and a sign for every state.
import {
  codeIcon,
  consoleIcon,
  fileIcon,
  folderIcon,
  LabIcon,
  pythonIcon,
  runningIcon
} from '@jupyterlab/ui-components';
import { tone } from './format';
import type { Job } from './wire';

/** Four nodes, one of them busy. */
export const slurmIcon = new LabIcon({
  name: 'jupyter-slurm:slurm',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M4 3h7v7H4zm1.6 1.6v3.8h3.8V4.6zM13 3h7v7h-7zM4 14h7v7H4zm1.6 1.6v3.8h3.8v-3.8zM13 14h7v7h-7zm1.6 1.6v3.8h3.8v-3.8z" fill-rule="evenodd"/>
  </g></svg>`
});

export const nodesIcon = drawn(
  'nodes',
  'M3 3h18v5H3zm2 1.6v1.8h2V4.6zM3 9.5h18v5H3zm2 1.6v1.8h2v-1.8zM3 16h18v5H3zm2 1.6v1.8h2v-1.8z'
);
export const filesIcon = badged('files', folderIcon);
export const jobIcon = drawn(
  'job',
  'M3 2h7v7H3zm1.6 1.6v3.8h3.8V3.6zM12 2h7v7h-7zM3 11h7v7H3zm1.6 1.6v3.8h3.8v-3.8zM15.5 12h3v4h4v3h-4v4h-3v-4h-4v-3h4z'
);
export const labIcon = drawn(
  'lab',
  'M3 2h7v7H3zm1.6 1.6v3.8h3.8V3.6zM12 2h7v7h-7zM3 11h7v7H3zm1.6 1.6v3.8h3.8v-3.8zM11 12h12v9H11zm1.5 2.8v4.7h9v-4.7zM14 22.2h6v1.5h-6z'
);
export const kernelIcon = badged('kernel', pythonIcon);

const sweepIcon = drawn(
  'sweep',
  'M4 4h4v4H4zm6 0h4v4h-4zm6 0h4v4h-4zM4 10h4v4H4zm6 0h4v4h-4zm6 0h4v4h-4zM4 16h4v4H4zm6 0h4v4h-4zm6 0h4v4h-4z'
);

const KIND_ICONS: Readonly<Record<Job['kind'], LabIcon>> = {
  cell: codeIcon,
  sweep: sweepIcon,
  script: fileIcon,
  program: consoleIcon,
  session: runningIcon,
  lab: labIcon,
  kernel: kernelIcon
};

export function kindIcon({ kind }: Pick<Job, 'kind'>): LabIcon {
  return KIND_ICONS[kind];
}

export const cancelIcon = drawn(
  'cancel',
  'M7.8 6.4 12 10.6l4.2-4.2 1.4 1.4L13.4 12l4.2 4.2-1.4 1.4L12 13.4l-4.2 4.2-1.4-1.4 4.2-4.2-4.2-4.2z'
);
export const logIcon = drawn('log', 'M4 5h16v2H4zm0 6h16v2H4zm0 6h10v2H4z');
export const openIcon = drawn(
  'open',
  'M5 5h6v2H7v10h10v-4h2v6H5zm8 0h6v6h-2V8.4l-5.3 5.3-1.4-1.4L15.6 7H13z'
);
export const holdIcon = drawn('hold', 'M7 5h4v14H7zm6 0h4v14h-4z');
export const releaseIcon = drawn('release', 'M8 5v14l11-7z');
export const extendIcon = drawn(
  'extend',
  'M12 4a8 8 0 1 0 8 8h-2a6 6 0 1 1-6-6zm-1 3v6h5v-2h-3V7zM18 2v3h3v2h-3v3h-2V7h-3V5h3V2z'
);
export const requeueIcon = drawn('requeue', 'M12 5V1L7 6l5 5V7a5 5 0 1 1-5 5H5a7 7 0 1 0 7-7z');
export const forgetIcon = drawn(
  'forget',
  'M6 19a2 2 0 0 0 2 2h8a2 2 0 0 0 2-2V7H6zM19 4h-3.5l-1-1h-5l-1 1H5v2h14z'
);
export const connectIcon = drawn(
  'connect',
  'M16 7h-1V3h-2v4h-2V3H9v4H8a1 1 0 0 0-1 1v5l3 4v4h4v-4l3-4V8a1 1 0 0 0-1-1z'
);
export const disconnectIcon = drawn(
  'disconnect',
  'M18 8v5l-1 1.4L10.6 8H11V3h2v4h2V3h2v4a1 1 0 0 1 1 1zM4.4 3 3 4.4 7 8.4V13l3 4v4h4v-4l.6-.8 4.9 4.9 1.4-1.4z'
);

/** Return one of JupyterLab's icons with the mark of this extension in a corner. */
function badged(name: string, { svgstr }: LabIcon): LabIcon {
  const inner = svgstr.replace(/<svg([^>]*?) width="\d+"/, '<svg$1 width="20" height="18"');
  return new LabIcon({
    name: `jupyter-slurm:${name}`,
    svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">${inner}
  <path class="jp-icon-brand0" fill="#0d47a1" d="M13 13h5v5h-5zm6 0h5v5h-5zm-6 6h5v5h-5zm6 0h5v5h-5z"/></svg>`
  });
}

function drawn(name: string, path: string): LabIcon {
  return new LabIcon({
    name: `jupyter-slurm:${name}`,
    svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <path class="jp-icon3" fill="#616161" d="${path}"/></svg>`
  });
}

const PAUSED = '‖';

/** A sign that differs without colour. A word always stands beside it. */
export function stateSign(state: string, held = false): string {
  if (held) {
    return PAUSED;
  }
  switch (tone(state)) {
    case 'done':
      return '✔';
    case 'ended':
      return '⊘';
    case 'failed':
      return '✖';
    case 'running':
      return '▶';
    case 'unknown':
      return '?';
    case 'waiting':
      return state === 'SUSPENDED' || state === 'STOPPED' ? PAUSED : '◷';
  }
}
