// The quickstart: a notebook of examples that need only a cluster. No I/O.
import type { PartialJSONObject } from '@lumino/coreutils';
import { trans } from '../translation';

/** If `starts`, include a cell that starts a cluster. */
export function quickstart(starts: boolean): PartialJSONObject {
  const cells = [
    text(
      trans.__('# A cell is a Slurm job'),
      trans.__(
        'A cell that starts with %1 runs on the cluster. The output appears below the cell while the job runs.',
        '`%%slurm`'
      ),
      trans.__('Run the cells one by one with Shift+Enter.')
    ),
    ...(starts ? startingCells() : []),
    code('%load_ext jupyter_slurm'),
    text(trans.__('## The first job')),
    code(
      '%%slurm',
      'import platform',
      '',
      'print("Hello from", platform.node(), "and Python", platform.python_version())'
    ),
    text(
      trans.__('## Variables'),
      trans.__('`--in` sends variables to the job, and `--out` returns variables to the notebook.')
    ),
    code('numbers = [3, 1, 4, 1, 5, 9, 2, 6]'),
    code('%%slurm --in numbers --out total', 'total = sum(numbers)'),
    code('total'),
    text(
      trans.__('## Resources'),
      trans.__('All options of `sbatch` work: `--gpus`, `--mem`, `--time` …')
    ),
    code(
      '%%slurm --cpus-per-task 2 --time 5m --name two-cpus',
      'import os',
      '',
      'print(os.environ["SLURM_CPUS_PER_TASK"], "CPUs in job", os.environ["SLURM_JOB_ID"])'
    ),
    text(
      trans.__('## All jobs'),
      trans.__('The sidebar also shows your jobs. %1 lists all options of a cell.', '`%%slurm?`')
    ),
    code('%slurm jobs')
  ];
  return {
    cells,
    metadata: {
      kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' },
      language_info: { name: 'python' }
    },
    nbformat: 4,
    nbformat_minor: 4
  };
}

function startingCells(): PartialJSONObject[] {
  return [
    text(
      trans.__('## A cluster'),
      trans.__('You have no cluster yet. This starts a private Slurm on this machine:')
    ),
    code('import sys', '', '!{sys.executable} -m jupyter_slurm up')
  ];
}

function text(...paragraphs: string[]): PartialJSONObject {
  return { cell_type: 'markdown', metadata: {}, source: paragraphs.join('\n\n') };
}

function code(...lines: string[]): PartialJSONObject {
  return {
    cell_type: 'code',
    metadata: {},
    source: lines.join('\n'),
    outputs: [],
    execution_count: null
  };
}
