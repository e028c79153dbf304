// The remedies of a job, as buttons of its card.
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { isFinal, isHeld, visible } from '../format';
import { canRetry } from '../tasks';
import { CommandIDs } from '../tokens';
import { trans } from '../translation';
import type { Connection, Job } from '../wire';

interface Remedy {
  label: string;
  title: string;
  act: () => void;
}

export function remediesOf(
  job: Job,
  connection: Connection | undefined,
  commands: CommandRegistry
): Remedy[] {
  const by = (
    label: string,
    title: string,
    id: string,
    args: ReadonlyPartialJSONObject
  ): Remedy => ({ label, title, act: () => void commands.execute(id, args) });
  const { id, cluster } = job;
  const again = more(job);
  const againArgs = { id, ...again };
  const canRepeat =
    again !== null &&
    commands.hasCommand(CommandIDs.submitAgain) &&
    commands.isEnabled(CommandIDs.submitAgain, againArgs);
  return [
    ...(needsLogin(job, connection)
      ? [
          by(trans.__('Log in'), trans.__('Connect to %1', visible(cluster)), CommandIDs.connect, {
            cluster
          })
        ]
      : []),
    ...(isHeldByUser(job)
      ? [by(trans.__('Release'), trans.__('Release the job'), CommandIDs.release, { id })]
      : []),
    ...(canRetry(job)
      ? [by(trans.__('Retry'), trans.__('Submit the failed tasks again'), CommandIDs.retry, { id })]
      : []),
    ...(canRepeat
      ? [
          by(
            trans.__('Submit again with %1', `--${again.option} ${again.value}`),
            trans.__('Change the options of the cell and run the cell'),
            CommandIDs.submitAgain,
            againArgs
          )
        ]
      : [])
  ];
}

function needsLogin(job: Job, connection: Connection | undefined): boolean {
  return (
    !isFinal(job.state) && (connection?.state === 'login-needed' || connection?.state === 'lost')
  );
}

/** Only an administrator can release a job that an administrator holds. */
export function isHeldByUser(job: Job): boolean {
  return isHeld(job.state, job.reason) && job.reason !== 'JobHeldAdmin';
}

const MIB_OF_GIB = 1024;

/** Return the option that the job needs more of; null if the end does not name one. */
export function more(job: Job): { option: 'mem' | 'time'; value: string } | null {
  if (job.kind !== 'cell' || job.session !== null) {
    return null;
  }
  const asked = job.usage?.memory_mib ?? null;
  // Slurm's figure is the memory of all nodes. --mem is for one node.
  if (job.state === 'OUT_OF_MEMORY' && asked !== null && job.nodes.length === 1) {
    const wanted = asked * 1.5;
    const value =
      wanted < MIB_OF_GIB ? `${Math.ceil(wanted)}M` : `${Math.ceil(wanted / MIB_OF_GIB)}G`;
    return { option: 'mem', value };
  }
  if (job.state === 'TIMEOUT' && job.limit_s !== null) {
    return { option: 'time', value: timeOf(2 * job.limit_s) };
  }
  return null;
}

/** Return the time limit in the format of --time. */
function timeOf(seconds: number): string {
  const minutes = Math.ceil(seconds / 60);
  const two = (part: number): string => String(part).padStart(2, '0');
  const clock = `${two(Math.floor(minutes / 60) % 24)}:${two(minutes % 60)}:00`;
  const days = Math.floor(minutes / 1440);
  return days > 0 ? `${days}-${clock}` : clock;
}
