// Fetching of missing output of a job into its cell, through the kernel.
import { LOAD } from '../submit/cell';
import { isKnown, kernelOf } from '../submit/notebook';
import { isCode, type Place } from '../submit/place';

/** Replace the cell's output with all output of the job. Fetch its variables, too. */
export async function showAll({ panel, cell }: Place, jobId: string): Promise<void> {
  const kernel = await kernelOf(panel);
  if (!(await isKnown(kernel))) {
    kernel.requestExecute({ code: LOAD, silent: true, store_history: false });
  }
  if (!isCode(cell)) {
    return;
  }
  const { outputArea, model } = cell;
  const run = kernel.requestExecute(
    { code: `%slurm attach ${jobId}`, store_history: false, stop_on_error: false },
    false,
    { cellId: model.id }
  );
  model.clearExecution();
  model.executionState = 'running';
  outputArea.future = run;
  const { content } = await run.done;
  if (content.status !== 'abort' && outputArea.future === run) {
    model.executionCount = content.execution_count;
  }
}
