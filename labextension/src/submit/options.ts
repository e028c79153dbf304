// Options with a field in the form, in the order of its line. Generated from
// jupyter_slurm/commands/table.py by `npm run wire`.
export const OPTIONS = [
  {
    name: 'cluster',
    words: ['--cluster'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: 'the cluster to run on; see `%slurm clusters`'
  },
  {
    name: 'partition',
    words: ['--partition', '-p'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: 'partition, or several separated by commas'
  },
  {
    name: 'account',
    words: ['--account', '-A'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: 'account that pays for the job'
  },
  {
    name: 'qos',
    words: ['--qos', '-q'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: 'quality of service'
  },
  {
    name: 'gpus',
    words: ['--gpus', '-G'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: 'GPUs for the job: 2, a100:2'
  },
  {
    name: 'nodes',
    words: ['--nodes', '-N'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: 'number of nodes: 2, 2-4'
  },
  {
    name: 'ntasks',
    words: ['--ntasks', '-n'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: 'number of tasks'
  },
  {
    name: 'launch',
    words: ['--launch'],
    kinds: ['code', 'file', 'cell', 'kernel'],
    help: 'use all nodes, with ranks or workers',
    choices: ['torchrun', 'mpi', 'ray', 'dask']
  },
  {
    name: 'cpus-per-task',
    words: ['--cpus-per-task', '-c'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: 'CPUs for each task'
  },
  {
    name: 'mem',
    words: ['--mem'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: 'memory on each node: 64G (0: all of it)'
  },
  {
    name: 'time',
    words: ['--time', '-t'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: 'time limit: 30m, 2h, 1-12:00:00'
  },
  {
    name: 'image',
    words: ['--image'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: "the container image: an alias in the profile, or the image's name"
  },
  {
    name: 'chdir',
    words: ['--chdir', '-D'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: 'working folder on the node'
  },
  {
    name: 'display-name',
    words: ['--display-name'],
    kinds: ['kernel'],
    help: 'the title of the kernel ("Python 3 (arandu · 1 GPU)")'
  },
  {
    name: 'name',
    words: ['--name', '--job-name', '-J'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: "the job's name"
  },
  {
    name: 'array',
    words: ['--array', '-a'],
    kinds: ['code', 'file', 'cell'],
    help: 'run once for each index: 0-15, 1,3,7, 1-8%4 (four at a time)'
  },
  {
    name: 'idle',
    words: ['--idle'],
    kinds: ['lab', 'kernel'],
    help: "stop after this time without use (the profile's `idle_s`: 1h)"
  },
  {
    name: 'module',
    words: ['--module'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: 'environment modules to load first, separated by commas'
  },
  {
    name: 'with',
    words: ['--with'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: 'packages to install first, separated by commas; only without an image'
  },
  {
    name: 'env',
    words: ['--env'],
    kinds: ['code', 'file', 'cell', 'lab', 'kernel'],
    help: 'an environment variable for the cell; may be repeated'
  },
  {
    name: 'tensorboard',
    words: ['--tensorboard'],
    kinds: ['code', 'file', 'cell'],
    help: 'show TensorBoard for the logs in DIR'
  }
] as const;
