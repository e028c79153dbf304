// Types of values that leave a process. Generated from jupyter_slurm/wire by `npm run wire`.

/**
 * Slurm's states under Slurm's names, and five states of our own.
 */
export type JobState =
  | 'BOOT_FAIL'
  | 'CANCELLED'
  | 'COMPLETED'
  | 'COMPLETING'
  | 'CONFIGURING'
  | 'DEADLINE'
  | 'EXPEDITING'
  | 'FAILED'
  | 'FINISHING'
  | 'LOST'
  | 'NODE_FAIL'
  | 'OUT_OF_MEMORY'
  | 'PENDING'
  | 'PREEMPTED'
  | 'REJECTED'
  | 'REQUEUED'
  | 'REQUEUE_FED'
  | 'REQUEUE_HOLD'
  | 'RESIZING'
  | 'RESV_DEL_HOLD'
  | 'REVOKED'
  | 'RUNNING'
  | 'SIGNALING'
  | 'SPECIAL_EXIT'
  | 'STAGE_OUT'
  | 'STOPPED'
  | 'SUBMITTING'
  | 'SUSPENDED'
  | 'TIMEOUT'
  | 'UNKNOWN';
export type TransferState = 'done' | 'failed' | 'running' | 'stopped';
export type LabStep = 'ready' | 'starting' | 'waiting';
export type ConnectionState =
  'asking' | 'closed' | 'connecting' | 'local' | 'login-needed' | 'lost' | 'open';
export type QuestionKind = 'host-key' | 'passphrase' | 'secret' | 'text' | 'touch';
export type ImageOrigin = 'alias' | 'built' | 'pulled' | 'site';
export type JobKind = 'cell' | 'kernel' | 'lab' | 'program' | 'script' | 'session' | 'sweep';
export type Output =
  Hello | Stream | DisplayData | UpdateDisplayData | ExecuteResult | ClearOutput | ErrorOutput;
export type Job = CellJob | SweepJob | ProgramJob | ScriptJob | SessionJob | KernelJob | LabJob;
export type JobSpec =
  CellSpec | SweepSpec | ProgramSpec | ScriptSpec | SessionSpec | KernelSpec | LabSpec;
export type Row =
  CellJob | SweepJob | ProgramJob | ScriptJob | SessionJob | KernelJob | LabJob | ListedJob;

export interface Wire {
  After?: After;
  AgentStatus?: AgentStatus;
  Check?: Check;
  Behind?: Behind;
  CellJob?: CellJob;
  JobState?: JobState;
  Problem?: Problem;
  Usage?: Usage;
  Transfer?: Transfer;
  TransferState?: TransferState;
  CellSpec?: CellSpec;
  Environment?: Environment;
  Changes?: Changes;
  SweepJob?: SweepJob;
  ProgramJob?: ProgramJob;
  ScriptJob?: ScriptJob;
  SessionJob?: SessionJob;
  KernelJob?: KernelJob;
  LabJob?: LabJob;
  Lab?: Lab;
  LabStep?: LabStep;
  ListedJob?: ListedJob;
  QueueStatus?: QueueStatus;
  Connection?: Connection;
  ConnectionState?: ConnectionState;
  Question?: Question;
  QuestionKind?: QuestionKind;
  Result?: Result;
  Gathered?: Gathered;
  ClearOutput?: ClearOutput;
  Cluster?: Cluster;
  ClusterInfo?: ClusterInfo;
  Partition?: Partition;
  Reservation?: Reservation;
  CommandOutput?: CommandOutput;
  Cost?: Cost;
  Description?: Description;
  Folder?: Folder;
  DisplayData?: DisplayData;
  Earlier?: Earlier;
  ErrorOutput?: ErrorOutput;
  ExecuteResult?: ExecuteResult;
  FileContent?: FileContent;
  FileEntry?: FileEntry;
  FileListing?: FileListing;
  GpuSample?: GpuSample;
  Hello?: Hello;
  Image?: Image;
  ImageOrigin?: ImageOrigin;
  ImageBuild?: ImageBuild;
  ImageRemoval?: ImageRemoval;
  ImageSpec?: ImageSpec;
  InstalledEnvironment?: InstalledEnvironment;
  JobDetails?: JobDetails;
  SweepSpec?: SweepSpec;
  ProgramSpec?: ProgramSpec;
  ScriptSpec?: ScriptSpec;
  SessionSpec?: SessionSpec;
  KernelSpec?: KernelSpec;
  LabSpec?: LabSpec;
  JobEvent?: JobEvent;
  JobKind?: JobKind;
  JobPriority?: JobPriority;
  LabEntry?: LabEntry;
  LogChunk?: LogChunk;
  Stream?: Stream;
  UpdateDisplayData?: UpdateDisplayData;
  Node?: Node;
  NodeChanges?: NodeChanges;
  Preview?: Preview;
  Refusal?: Refusal;
  RemoteKernel?: RemoteKernel;
  Spending?: Spending;
  Spent?: Spent;
  SweepFailure?: SweepFailure;
  SweepTasks?: SweepTasks;
  Tunnel?: Tunnel;
  UsageChanges?: UsageChanges;
  UsageSample?: UsageSample;
  Output?: Output;
  Job?: Job;
  JobSpec?: JobSpec;
  Row?: Row;
}
/**
 * A job that another job waits for.
 */
export interface After {
  job: string;
  ends: 'any' | 'fail' | 'ok';
}
/**
 * The status of the agent, for `jupyter slurm status`.
 */
export interface AgentStatus {
  version: string;
  protocol: number;
  pid: number;
  host: string;
  socket: string;
  log: string;
  started_s: number;
  memory_mib: number;
  cpu_s: number;
  clients: number;
  live_jobs: number;
  commands: {
    [k: string]: number;
  };
  checks: Check[];
}
/**
 * One line of `doctor`.
 */
export interface Check {
  ok: boolean | null;
  sentence: string;
  hint: string | null;
  option: string | null;
}
/**
 * Files that a transfer did not copy.
 */
export interface Behind {
  count: number;
  reasons: {
    [k: string]: string;
  };
}
export interface CellJob {
  kind: 'cell';
  cluster: string;
  name: string;
  slurm_id: string | null;
  user: string | null;
  partition: string | null;
  account: string | null;
  qos: string | null;
  priority: number | null;
  reason: string | null;
  why: string | null;
  nodes: string[];
  node_count: number | null;
  gpus: number;
  gpu_load: number | null;
  submitted_s: number | null;
  started_s: number | null;
  ended_s: number | null;
  start_estimate_s: number | null;
  limit_s: number | null;
  tasks: {
    [k: string]: string;
  };
  id: string;
  state: JobState;
  revision: number;
  restarts: number;
  advice: string | null;
  warning: string | null;
  problem: Problem | null;
  problem_since_s: number | null;
  created_s: number;
  state_since_s: number;
  erased_s: number | null;
  image: string | null;
  container_name: string | null;
  environment_id: string | null;
  runtime: string;
  exit_code: number | null;
  signal: number | null;
  usage: Usage | null;
  cancel_requested_s: number | null;
  no_requeue: string | null;
  inferred: boolean;
  delivered: boolean;
  notebook: string | null;
  fingerprint: string | null;
  job_dir: string;
  python: [number, number, number] | null;
  python_path: string;
  fetch: string[];
  fetch_to: string | null;
  transfer: Transfer | null;
  names_out: string[];
  out_format: 'auto' | 'data';
  session: string | null;
  session_ends_s: number | null;
  launch: ('dask' | 'mpi' | 'ray' | 'torchrun') | null;
  names_gather: string[];
  ranks: number;
  tensorboard: string | null;
}
/**
 * An error as a value; see `errors.py` for the codes.
 */
export interface Problem {
  code: string;
  message: string;
  hint: string | null;
  detail: string | null;
  transient: boolean;
  option: string | null;
}
/**
 * Used and allocated resources; None if not measured.
 */
export interface Usage {
  elapsed_s: number | null;
  cpu_s: number | null;
  cpus: number | null;
  peak_memory_mib: number | null;
  memory_mib: number | null;
  gpus: number | null;
}
/**
 * A transfer of files between this machine and a cluster.
 */
export interface Transfer {
  id: string;
  cluster: string;
  direction: 'pull' | 'push';
  local: string;
  remote: string;
  state: TransferState;
  files: number | null;
  bytes: number | null;
  files_done: number;
  bytes_done: number;
  files_same: number;
  failed: Behind | null;
  left_out: Behind | null;
  began_s: number;
  ended_s: number | null;
  problem: Problem | null;
}
/**
 * A Python cell, run by node/runner.py.
 */
export interface CellSpec {
  kind: 'cell';
  id: string;
  name: string;
  cluster: string | null;
  options: {
    [k: string]: string;
  };
  after: After[];
  image: string | null;
  container_name: string | null;
  environment: Environment | null;
  container_remap_root: boolean;
  runtime: string | null;
  modules: string[];
  env: {
    [k: string]: string;
  };
  mounts: string[];
  cwd: string | null;
  notebook: string | null;
  file: string | null;
  fingerprint: string | null;
  kernel: string | null;
  push: string | null;
  push_exclude: string[];
  fetch: string[];
  fetch_to: string | null;
  slurm_conf: string | null;
  code: string;
  names_in: string[];
  names_out: string[];
  out_format: ('auto' | 'data') | null;
  inputs: string | null;
  inputs_digest: string | null;
  inputs_python: [number, number] | null;
  session: string | null;
  launch: ('dask' | 'mpi' | 'ray' | 'torchrun') | null;
  names_gather: string[];
  max_restarts: number;
  mpi: string | null;
  tensorboard: string | null;
}
/**
 * The packages that a job needs. The cluster installs equal sets once.
 */
export interface Environment {
  packages: string[];
  mine: boolean;
  file: string | null;
  source: 'conda' | 'requirements' | 'uv.lock';
  text: string;
  project: string;
  left_out: string[];
}
/**
 * Changes of jobs and connections since a cursor, with each job at most once.
 */
export interface Changes {
  cursor: string;
  whole: boolean;
  jobs: (CellJob | SweepJob | ProgramJob | ScriptJob | SessionJob | KernelJob | LabJob)[];
  listed: ListedJob[];
  listed_whole: string[];
  gone: string[];
  queues: QueueStatus[];
  connections: Connection[] | null;
  results: Result[];
}
/**
 * A sweep. `tasks` includes tasks not yet submitted (PENDING). `slurm_id` is the ID of its
 * first array.
 */
export interface SweepJob {
  kind: 'sweep';
  cluster: string;
  name: string;
  slurm_id: string | null;
  user: string | null;
  partition: string | null;
  account: string | null;
  qos: string | null;
  priority: number | null;
  reason: string | null;
  why: string | null;
  nodes: string[];
  node_count: number | null;
  gpus: number;
  gpu_load: number | null;
  submitted_s: number | null;
  started_s: number | null;
  ended_s: number | null;
  start_estimate_s: number | null;
  limit_s: number | null;
  tasks: {
    [k: string]: string;
  };
  id: string;
  state: JobState;
  revision: number;
  restarts: number;
  advice: string | null;
  warning: string | null;
  problem: Problem | null;
  problem_since_s: number | null;
  created_s: number;
  state_since_s: number;
  erased_s: number | null;
  image: string | null;
  container_name: string | null;
  environment_id: string | null;
  runtime: string;
  exit_code: number | null;
  signal: number | null;
  usage: Usage | null;
  cancel_requested_s: number | null;
  no_requeue: string | null;
  inferred: boolean;
  delivered: boolean;
  notebook: string | null;
  fingerprint: string | null;
  job_dir: string;
  python: [number, number, number] | null;
  python_path: string;
  fetch: string[];
  fetch_to: string | null;
  transfer: Transfer | null;
  names_out: string[];
  out_format: 'auto' | 'data';
  names_params: string[];
  max_running: number | null;
  max_fails: number | null;
  into: string;
  arrays: string[];
  offsets: {
    [k: string]: number;
  };
  stopped_s: number | null;
}
export interface ProgramJob {
  kind: 'program';
  cluster: string;
  name: string;
  slurm_id: string | null;
  user: string | null;
  partition: string | null;
  account: string | null;
  qos: string | null;
  priority: number | null;
  reason: string | null;
  why: string | null;
  nodes: string[];
  node_count: number | null;
  gpus: number;
  gpu_load: number | null;
  submitted_s: number | null;
  started_s: number | null;
  ended_s: number | null;
  start_estimate_s: number | null;
  limit_s: number | null;
  tasks: {
    [k: string]: string;
  };
  id: string;
  state: JobState;
  revision: number;
  restarts: number;
  advice: string | null;
  warning: string | null;
  problem: Problem | null;
  problem_since_s: number | null;
  created_s: number;
  state_since_s: number;
  erased_s: number | null;
  image: string | null;
  container_name: string | null;
  environment_id: string | null;
  runtime: string;
  exit_code: number | null;
  signal: number | null;
  usage: Usage | null;
  cancel_requested_s: number | null;
  no_requeue: string | null;
  inferred: boolean;
  delivered: boolean;
  notebook: string | null;
  fingerprint: string | null;
  job_dir: string;
  python: [number, number, number] | null;
  python_path: string;
  fetch: string[];
  fetch_to: string | null;
  transfer: Transfer | null;
  on_login: boolean;
}
/**
 * A batch script.
 */
export interface ScriptJob {
  kind: 'script';
  cluster: string;
  name: string;
  slurm_id: string | null;
  user: string | null;
  partition: string | null;
  account: string | null;
  qos: string | null;
  priority: number | null;
  reason: string | null;
  why: string | null;
  nodes: string[];
  node_count: number | null;
  gpus: number;
  gpu_load: number | null;
  submitted_s: number | null;
  started_s: number | null;
  ended_s: number | null;
  start_estimate_s: number | null;
  limit_s: number | null;
  tasks: {
    [k: string]: string;
  };
  id: string;
  state: JobState;
  revision: number;
  restarts: number;
  advice: string | null;
  warning: string | null;
  problem: Problem | null;
  problem_since_s: number | null;
  created_s: number;
  state_since_s: number;
  erased_s: number | null;
  image: string | null;
  container_name: string | null;
  environment_id: string | null;
  runtime: string;
  exit_code: number | null;
  signal: number | null;
  usage: Usage | null;
  cancel_requested_s: number | null;
  no_requeue: string | null;
  inferred: boolean;
  delivered: boolean;
  notebook: string | null;
  fingerprint: string | null;
  job_dir: string;
  python: [number, number, number] | null;
  python_path: string;
  fetch: string[];
  fetch_to: string | null;
  transfer: Transfer | null;
}
export interface SessionJob {
  kind: 'session';
  cluster: string;
  name: string;
  slurm_id: string | null;
  user: string | null;
  partition: string | null;
  account: string | null;
  qos: string | null;
  priority: number | null;
  reason: string | null;
  why: string | null;
  nodes: string[];
  node_count: number | null;
  gpus: number;
  gpu_load: number | null;
  submitted_s: number | null;
  started_s: number | null;
  ended_s: number | null;
  start_estimate_s: number | null;
  limit_s: number | null;
  tasks: {
    [k: string]: string;
  };
  id: string;
  state: JobState;
  revision: number;
  restarts: number;
  advice: string | null;
  warning: string | null;
  problem: Problem | null;
  problem_since_s: number | null;
  created_s: number;
  state_since_s: number;
  erased_s: number | null;
  image: string | null;
  container_name: string | null;
  environment_id: string | null;
  runtime: string;
  exit_code: number | null;
  signal: number | null;
  usage: Usage | null;
  cancel_requested_s: number | null;
  no_requeue: string | null;
  inferred: boolean;
  delivered: boolean;
  notebook: string | null;
  fingerprint: string | null;
  job_dir: string;
  python: [number, number, number] | null;
  python_path: string;
  fetch: string[];
  fetch_to: string | null;
  transfer: Transfer | null;
  idle_s: number | null;
  idle_since_s: number | null;
  launch: ('dask' | 'mpi' | 'ray' | 'torchrun') | null;
  for_executor: boolean;
}
export interface KernelJob {
  kind: 'kernel';
  cluster: string;
  name: string;
  slurm_id: string | null;
  user: string | null;
  partition: string | null;
  account: string | null;
  qos: string | null;
  priority: number | null;
  reason: string | null;
  why: string | null;
  nodes: string[];
  node_count: number | null;
  gpus: number;
  gpu_load: number | null;
  submitted_s: number | null;
  started_s: number | null;
  ended_s: number | null;
  start_estimate_s: number | null;
  limit_s: number | null;
  tasks: {
    [k: string]: string;
  };
  id: string;
  state: JobState;
  revision: number;
  restarts: number;
  advice: string | null;
  warning: string | null;
  problem: Problem | null;
  problem_since_s: number | null;
  created_s: number;
  state_since_s: number;
  erased_s: number | null;
  image: string | null;
  container_name: string | null;
  environment_id: string | null;
  runtime: string;
  exit_code: number | null;
  signal: number | null;
  usage: Usage | null;
  cancel_requested_s: number | null;
  no_requeue: string | null;
  inferred: boolean;
  delivered: boolean;
  notebook: string | null;
  fingerprint: string | null;
  job_dir: string;
  python: [number, number, number] | null;
  python_path: string;
  fetch: string[];
  fetch_to: string | null;
  transfer: Transfer | null;
  idle_s: number | null;
  launch: ('dask' | 'mpi' | 'ray' | 'torchrun') | null;
}
export interface LabJob {
  kind: 'lab';
  cluster: string;
  name: string;
  slurm_id: string | null;
  user: string | null;
  partition: string | null;
  account: string | null;
  qos: string | null;
  priority: number | null;
  reason: string | null;
  why: string | null;
  nodes: string[];
  node_count: number | null;
  gpus: number;
  gpu_load: number | null;
  submitted_s: number | null;
  started_s: number | null;
  ended_s: number | null;
  start_estimate_s: number | null;
  limit_s: number | null;
  tasks: {
    [k: string]: string;
  };
  id: string;
  state: JobState;
  revision: number;
  restarts: number;
  advice: string | null;
  warning: string | null;
  problem: Problem | null;
  problem_since_s: number | null;
  created_s: number;
  state_since_s: number;
  erased_s: number | null;
  image: string | null;
  container_name: string | null;
  environment_id: string | null;
  runtime: string;
  exit_code: number | null;
  signal: number | null;
  usage: Usage | null;
  cancel_requested_s: number | null;
  no_requeue: string | null;
  inferred: boolean;
  delivered: boolean;
  notebook: string | null;
  fingerprint: string | null;
  job_dir: string;
  python: [number, number, number] | null;
  python_path: string;
  fetch: string[];
  fetch_to: string | null;
  transfer: Transfer | null;
  idle_s: number | null;
  idle_since_s: number | null;
  lab: Lab | null;
}
/**
 * The state of a lab that has not ended.
 */
export interface Lab {
  url: string;
  port: number;
  base_url: string;
  step: LabStep;
}
/**
 * A job, or tasks of an array, without a record in the agent.
 */
export interface ListedJob {
  kind: 'listed';
  cluster: string;
  name: string;
  slurm_id?: string | null;
  user?: string | null;
  partition?: string | null;
  account?: string | null;
  qos?: string | null;
  priority?: number | null;
  reason?: string | null;
  why?: string | null;
  nodes?: string[];
  node_count?: number | null;
  gpus?: number;
  gpu_load?: number | null;
  submitted_s?: number | null;
  started_s?: number | null;
  ended_s?: number | null;
  start_estimate_s?: number | null;
  limit_s?: number | null;
  tasks?: {
    [k: string]: string;
  };
  id?: string | null;
  state: string;
  mine?: boolean;
  array?: string | null;
}
/**
 * The age of a cluster's queue listing.
 */
export interface QueueStatus {
  cluster: string;
  asked_s: number | null;
  problem: Problem | null;
  interval_s: number;
}
/**
 * The state of the connection to a cluster.
 */
export interface Connection {
  cluster: string;
  state: ConnectionState;
  since_s: number;
  hosts: string[];
  question: Question | null;
  problem: Problem | null;
  round_trip_s: number | null;
}
/**
 * A login question for the user, answered by `Api.answer`.
 */
export interface Question {
  id: string;
  cluster: string;
  host: string;
  kind: QuestionKind;
  prompt: string;
  instruction: string;
  names_a_key: boolean;
  refused: boolean;
}
/**
 * The outcome of a cell, with a valid signature.
 */
export interface Result {
  job: CellJob | SweepJob | ProgramJob | ScriptJob | SessionJob | KernelJob | LabJob;
  status: 'error' | 'interrupted' | 'killed' | 'none' | 'ok';
  ename: string | null;
  evalue: string | null;
  traceback: string[];
  interrupted_by: string | null;
  variables: string | null;
  names: string[];
  failed: {
    [k: string]: string;
  };
  gathered: Gathered[];
}
/**
 * The `--gather` variables of one rank; fields as in `Result`.
 */
export interface Gathered {
  variables: string | null;
  names: string[];
}
export interface ClearOutput {
  type: 'clear_output';
  wait: boolean;
}
/**
 * A cluster in the profiles.
 */
export interface Cluster {
  name: string;
  host: string | null;
  runtime: string;
  origin: string;
  default: boolean;
  images: string[];
  problem: Problem | null;
}
/**
 * A cluster's partitions, accounts, QOS and reservations at `asked_s`.
 */
export interface ClusterInfo {
  name: string;
  slurm_version: string;
  partitions: Partition[];
  accounting: boolean;
  accounts: string[];
  qos: string[];
  cost_unit: string;
  hidden: string[];
  reservations: Reservation[];
  asked_s: number;
}
export interface Partition {
  name: string;
  default: boolean;
  up: boolean;
  limit_s: number | null;
  nodes: number;
  idle_nodes: number;
  gpu_types: string[];
  gpus: number;
  free_gpus: number | null;
  gpus_by_type: {
    /**
     * @minItems 2
     * @maxItems 2
     */
    [k: string]: [number, number | null];
  };
  cpus: number | null;
  memory_mib: number | null;
  gpus_per_node: number;
  max_nodes: number | null;
  default_time_s: number | null;
  exclusive: boolean;
  allow_qos: string[];
  allow_accounts: string[];
  cost: number | null;
  about: string;
}
/**
 * A reservation of nodes for a period, for maintenance or for certain users.
 */
export interface Reservation {
  name: string;
  start_s: number;
  end_s: number;
  maintenance: boolean;
  partitions: {
    [k: string]: number;
  };
}
/**
 * The output of a Slurm command.
 */
export interface CommandOutput {
  argv: string[];
  returncode: number;
  stdout: string;
  stderr: string;
}
/**
 * The cost of a job that runs for all of `limit_s`.
 */
export interface Cost {
  limit_s: number;
  jobs: number;
  node_hours: number | null;
  cpu_hours: number;
  gpu_hours: number;
  units: number | null;
  unit: string;
}
/**
 * Tools, Python and folders on the login node, collected for a new profile.
 */
export interface Description {
  name: string;
  sbatch: string | null;
  runtimes: string[];
  modules: boolean;
  python: string | null;
  folders: Folder[];
  login_shell: boolean;
}
/**
 * A folder on the cluster for the user's files.
 */
export interface Folder {
  name: string;
  path: string;
  writable: boolean;
  file_system: string;
  free_mib: number | null;
  shared: boolean | null;
}
export interface DisplayData {
  type: 'display_data';
  data: {
    [k: string]: unknown;
  };
  metadata: {
    [k: string]: unknown;
  };
  display_id: string | null;
}
/**
 * An earlier job of the same cell.
 */
export interface Earlier {
  job: CellJob | SweepJob | ProgramJob | ScriptJob | SessionJob | KernelJob | LabJob;
  differs: ('folder' | 'image' | 'in' | 'in?' | 'kernel' | 'options' | 'push')[];
}
export interface ErrorOutput {
  type: 'error';
  ename: string;
  evalue: string;
  traceback: string[];
}
export interface ExecuteResult {
  type: 'execute_result';
  data: {
    [k: string]: unknown;
  };
  metadata: {
    [k: string]: unknown;
  };
}
export interface FileContent {
  entry: FileEntry;
  content: string;
}
/**
 * A file or folder, or the target of a link.
 */
export interface FileEntry {
  name: string;
  kind: 'file' | 'folder' | 'other';
  size_bytes: number;
  modified_s: number;
  writable: boolean;
}
/**
 * A folder and its entries, except names that are not UTF-8.
 */
export interface FileListing {
  folder: FileEntry;
  entries: FileEntry[];
}
export interface GpuSample {
  name: string;
  utilisation: number | null;
  memory_mib: number | null;
  memory_total_mib: number | null;
}
/**
 * The first record: the Python that runs the cell.
 */
export interface Hello {
  type: 'hello';
  /**
   * @minItems 3
   * @maxItems 3
   */
  python: [number, number, number];
  executable: string;
}
export interface Image {
  name: string;
  origin: ImageOrigin;
  path: string;
  tool: string | null;
  base: string | null;
  digest: string | null;
  made_s: number | null;
  size_mib: number | null;
}
export interface ImageBuild {
  image: Image;
  job: (CellJob | SweepJob | ProgramJob | ScriptJob | SessionJob | KernelJob | LabJob) | null;
}
export interface ImageRemoval {
  held_on: string[];
}
/**
 * A request to build or pull an image.
 */
export interface ImageSpec {
  id: string;
  name: string;
  recipe: string | null;
  base: string | null;
  folder: string | null;
  push: string | null;
  cluster: string | null;
  runtime: string | null;
  options: {
    [k: string]: string;
  };
  again: boolean;
  notebook: string | null;
}
export interface InstalledEnvironment {
  id: string;
  packages: string[];
  file: string | null;
  tool: string;
  python: string;
  path: string;
  size_mib: number | null;
  made_s: number | null;
  used_s: number | null;
}
/**
 * The details of one job.
 */
export interface JobDetails {
  job: CellJob | SweepJob | ProgramJob | ScriptJob | SessionJob | KernelJob | LabJob;
  asked:
    (CellSpec | SweepSpec | ProgramSpec | ScriptSpec | SessionSpec | KernelSpec | LabSpec) | null;
  code: string | null;
  script: string | null;
  command: string[];
  environment: {
    [k: string]: string | null;
  };
  record: {
    [k: string]: string;
  };
  events: JobEvent[];
  folder: string;
  problem: Problem | null;
}
/**
 * A Python cell that runs once for each task of Slurm job arrays.
 */
export interface SweepSpec {
  kind: 'sweep';
  id: string;
  name: string;
  cluster: string | null;
  options: {
    [k: string]: string;
  };
  after: After[];
  image: string | null;
  container_name: string | null;
  environment: Environment | null;
  container_remap_root: boolean;
  runtime: string | null;
  modules: string[];
  env: {
    [k: string]: string;
  };
  mounts: string[];
  cwd: string | null;
  notebook: string | null;
  file: string | null;
  fingerprint: string | null;
  kernel: string | null;
  push: string | null;
  push_exclude: string[];
  fetch: string[];
  fetch_to: string | null;
  slurm_conf: string | null;
  code: string;
  tasks: string;
  names_params: string[];
  params: string | null;
  params_digest: string | null;
  params_text: string | null;
  max_running: number | null;
  max_fails: number | null;
  into: string;
  names_in: string[];
  names_out: string[];
  out_format: ('auto' | 'data') | null;
  inputs: string | null;
  inputs_digest: string | null;
  inputs_python: [number, number] | null;
}
/**
 * A script that starts with `#!` and runs in the image, or the image's own program.
 */
export interface ProgramSpec {
  kind: 'program';
  id: string;
  name: string;
  cluster: string | null;
  options: {
    [k: string]: string;
  };
  after: After[];
  image: string | null;
  container_name: string | null;
  environment: Environment | null;
  container_remap_root: boolean;
  runtime: string | null;
  modules: string[];
  env: {
    [k: string]: string;
  };
  mounts: string[];
  cwd: string | null;
  notebook: string | null;
  file: string | null;
  fingerprint: string | null;
  kernel: string | null;
  push: string | null;
  push_exclude: string[];
  fetch: string[];
  fetch_to: string | null;
  slurm_conf: string | null;
  code: string;
  arguments: string[];
  on_login: boolean;
}
/**
 * A batch script, passed to sbatch as written (%%sbatch).
 */
export interface ScriptSpec {
  kind: 'script';
  id: string;
  name: string;
  cluster: string | null;
  options: {
    [k: string]: string;
  };
  after: After[];
  image: string | null;
  container_name: string | null;
  environment: Environment | null;
  container_remap_root: boolean;
  runtime: string | null;
  modules: string[];
  env: {
    [k: string]: string;
  };
  mounts: string[];
  cwd: string | null;
  notebook: string | null;
  file: string | null;
  fingerprint: string | null;
  kernel: string | null;
  push: string | null;
  push_exclude: string[];
  fetch: string[];
  fetch_to: string | null;
  slurm_conf: string | null;
  code: string;
  arguments: string[];
}
/**
 * A process on the node that runs cells on request.
 */
export interface SessionSpec {
  kind: 'session';
  id: string;
  name: string;
  cluster: string | null;
  options: {
    [k: string]: string;
  };
  after: After[];
  image: string | null;
  container_name: string | null;
  environment: Environment | null;
  container_remap_root: boolean;
  runtime: string | null;
  modules: string[];
  env: {
    [k: string]: string;
  };
  mounts: string[];
  cwd: string | null;
  notebook: string | null;
  file: string | null;
  fingerprint: string | null;
  kernel: string | null;
  push: string | null;
  push_exclude: string[];
  fetch: string[];
  fetch_to: string | null;
  slurm_conf: string | null;
  idle_s: number;
  launch: ('dask' | 'mpi' | 'ray' | 'torchrun') | null;
  mpi: string | null;
  for_executor: boolean;
}
/**
 * An ipykernel on the node, for a local client.
 */
export interface KernelSpec {
  kind: 'kernel';
  id: string;
  name: string;
  cluster: string | null;
  options: {
    [k: string]: string;
  };
  after: After[];
  image: string | null;
  container_name: string | null;
  environment: Environment | null;
  container_remap_root: boolean;
  runtime: string | null;
  modules: string[];
  env: {
    [k: string]: string;
  };
  mounts: string[];
  cwd: string | null;
  notebook: string | null;
  file: string | null;
  fingerprint: string | null;
  kernel: string | null;
  push: string | null;
  push_exclude: string[];
  fetch: string[];
  fetch_to: string | null;
  slurm_conf: string | null;
  idle_s: number | null;
  launch: ('dask' | 'mpi' | 'ray' | 'torchrun') | null;
}
/**
 * JupyterLab on the node, run by node/lab.py.
 */
export interface LabSpec {
  kind: 'lab';
  id: string;
  name: string;
  cluster: string | null;
  options: {
    [k: string]: string;
  };
  after: After[];
  image: string | null;
  container_name: string | null;
  environment: Environment | null;
  container_remap_root: boolean;
  runtime: string | null;
  modules: string[];
  env: {
    [k: string]: string;
  };
  mounts: string[];
  cwd: string | null;
  notebook: string | null;
  file: string | null;
  fingerprint: string | null;
  kernel: string | null;
  push: string | null;
  push_exclude: string[];
  fetch: string[];
  fetch_to: string | null;
  slurm_conf: string | null;
  idle_s: number | null;
  jupyter_base_url: string | null;
}
/**
 * An event in the life of a job.
 */
export interface JobEvent {
  time_s: number;
  state: JobState;
  text: string | null;
}
/**
 * The priority of a waiting job in one of its partitions; an array is one job.
 */
export interface JobPriority {
  slurm_id: string;
  partition: string;
  priority: number;
  before: number;
  waiting: number;
  given?: {
    [k: string]: number;
  };
}
/**
 * The login of a browser to a lab. The browser POSTs `token`, as `token` and as `password`, to
 * `login_url`. So the token never appears in a URL, history, log or command line. A dashboard
 * opens by its `login_url` alone; Ray's dashboard then asks for `token`.
 */
export interface LabEntry {
  login_url: string;
  token: string;
  port: number;
  base_url: string;
  cookie: string;
}
/**
 * The output after a cursor, and the job's state when the agent read the output.
 */
export interface LogChunk {
  job: CellJob | SweepJob | ProgramJob | ScriptJob | SessionJob | KernelJob | LabJob;
  outputs: (
    Hello | Stream | DisplayData | UpdateDisplayData | ExecuteResult | ClearOutput | ErrorOutput
  )[];
  cursor: string;
  skipped_bytes: number;
  more: boolean;
  end: boolean;
  show: 'full' | 'sandboxed' | 'text';
}
export interface Stream {
  type: 'stream';
  name: 'stderr' | 'stdout';
  text: string;
  time_s: number;
}
export interface UpdateDisplayData {
  type: 'update_display_data';
  data: {
    [k: string]: unknown;
  };
  metadata: {
    [k: string]: unknown;
  };
  display_id: string;
}
/**
 * A node as sinfo shows it.
 */
export interface Node {
  name: string;
  state: string;
  partitions: string[];
  cpus: number;
  cpus_used: number;
  memory_mib?: number | null;
  memory_free_mib?: number | null;
  load?: number | null;
  gpus?: number;
  gpus_used?: number | null;
  gpu_type?: string | null;
  features?: string | null;
  reason?: string | null;
}
/**
 * All nodes and partitions of a cluster, sent after each change.
 */
export interface NodeChanges {
  cluster: string;
  cursor: string;
  nodes: Node[];
  partitions: Partition[];
  reservations: Reservation[];
  asked_s: number | null;
  problem: Problem | null;
  interval_s: number;
}
/**
 * The preview of a submission (`--dry-run`).
 */
export interface Preview {
  cluster: string;
  script: string;
  sbatch: string[];
  job_dir: string;
  files: string[];
  variables: string[];
  cost: Cost | null;
  checks: Check[];
  start_estimate_s: number | null;
}
/**
 * A job that Slurm did not change.
 */
export interface Refusal {
  job: string;
  why: string;
}
/**
 * A remote kernel, existing or proposed.
 */
export interface RemoteKernel {
  name: string;
  display_name: string;
  words: string[];
  cluster: string | null;
  exists: boolean;
}
export interface Spending {
  cluster: string;
  since_s: number;
  asked_s: number;
  accounting: boolean;
  unit: string;
  spent: Spent[];
}
/**
 * Resources allocated to an account's jobs, even if unused.
 */
export interface Spent {
  account: string;
  user: string;
  jobs: number;
  cpu_hours: number;
  gpu_hours: number;
  units: number | null;
  unpriced: number;
}
/**
 * An error that tasks of a sweep have in common.
 */
export interface SweepFailure {
  tasks: string;
  ename: string;
  evalue: string;
  traceback: string[];
}
/**
 * The tasks of a sweep. Tasks are in the notation of --array.
 */
export interface SweepTasks {
  job: SweepJob;
  states: {
    [k: string]: string;
  };
  reasons: {
    [k: string]: string;
  };
  nodes: {
    [k: string]: string;
  };
  elapsed_s: (number | null)[];
  peak_mib: (number | null)[];
  failures: SweepFailure[];
  params: {
    [k: string]: string[];
  };
}
/**
 * A local port, on both loopbacks, forwarded to `host:port` as the cluster sees it. If `port`
 * is 0, `host` is the path of a Unix socket.
 */
export interface Tunnel {
  id: string;
  cluster: string;
  host: string;
  port: number;
  local_port: number;
  route: 'direct' | 'relay';
  job_id: string | null;
  connections: number;
  problem: Problem | null;
}
export interface UsageChanges {
  cursor: string;
  samples: UsageSample[];
  job: CellJob | SweepJob | ProgramJob | ScriptJob | SessionJob | KernelJob | LabJob;
  end: boolean;
  problem: Problem | null;
}
/**
 * Usage at a moment, on one node of a job.
 */
export interface UsageSample {
  time_s: number;
  cpus: number;
  memory_mib: number;
  gpus: GpuSample[];
  node: string;
}
