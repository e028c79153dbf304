// States of a job, their words, and the reasons not shown beside them. Generated from
// jupyter_slurm/wire/state.py by `npm run wire`.
export const STATES = {
  SUBMITTING: { word: 'submitting', tone: 'waiting', final: false },
  REJECTED: { word: 'refused', tone: 'failed', final: true },
  UNKNOWN: { word: 'unknown', tone: 'unknown', final: false },
  FINISHING: { word: 'finishing', tone: 'running', final: false },
  LOST: { word: 'lost', tone: 'unknown', final: true },
  PENDING: { word: 'waiting', tone: 'waiting', final: false },
  CONFIGURING: { word: 'starting', tone: 'running', final: false },
  RUNNING: { word: 'running', tone: 'running', final: false },
  SUSPENDED: { word: 'suspended', tone: 'waiting', final: false },
  STOPPED: { word: 'stopped', tone: 'waiting', final: false },
  SIGNALING: { word: 'running', tone: 'running', final: false },
  RESIZING: { word: 'running', tone: 'running', final: false },
  EXPEDITING: { word: 'requeued', tone: 'waiting', final: false },
  STAGE_OUT: { word: 'finishing', tone: 'running', final: false },
  COMPLETING: { word: 'finishing', tone: 'running', final: false },
  REQUEUED: { word: 'requeued', tone: 'waiting', final: false },
  REQUEUE_FED: { word: 'requeued', tone: 'waiting', final: false },
  REQUEUE_HOLD: { word: 'on hold', tone: 'waiting', final: false },
  SPECIAL_EXIT: { word: 'on hold', tone: 'waiting', final: false },
  RESV_DEL_HOLD: { word: 'on hold', tone: 'waiting', final: false },
  REVOKED: { word: 'elsewhere', tone: 'ended', final: false },
  COMPLETED: { word: 'done', tone: 'done', final: true },
  CANCELLED: { word: 'cancelled', tone: 'ended', final: true },
  FAILED: { word: 'failed', tone: 'failed', final: true },
  TIMEOUT: { word: 'timed out', tone: 'failed', final: true },
  DEADLINE: { word: 'missed deadline', tone: 'failed', final: true },
  NODE_FAIL: { word: 'node failed', tone: 'failed', final: true },
  BOOT_FAIL: { word: 'boot failed', tone: 'failed', final: true },
  PREEMPTED: { word: 'preempted', tone: 'failed', final: true },
  OUT_OF_MEMORY: { word: 'out of memory', tone: 'failed', final: true }
} as const;
export const RAISED = 'The cell raised ([^ ]+)\\.' as const;
export const SAID_BY_STATE = [
  'Cancelled.',
  'Next in line, waiting for resources.',
  'On hold (by you).',
  'Other jobs are ahead of it in the queue.',
  'Out of memory.',
  'Time limit reached.'
] as const;
export const SAID_BY_CARD = [
  'Failed \\(exit code [0-9]+\\)\\.',
  'Out of memory \\(peak [^)]+\\)\\.',
  'The cell raised ([^ ]+)\\.'
] as const;
