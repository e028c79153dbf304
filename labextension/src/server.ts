// The way to the Jupyter server: calls, and what is watched over one WebSocket. Knows no view.
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { problem } from './messages';
import type { Problem } from './wire';

/** An error that the agent or the server has put into words. */
export class SlurmError extends Error {
  constructor(
    readonly problem: Problem,
    readonly status: number
  ) {
    super(problem.message);
    this.name = 'SlurmError';
  }
}

const PREFIX = 'jupyter-slurm/api';

/** Asks the server to call `name`; rejects with a SlurmError, also where it cannot be reached. */
export async function request<T>(
  settings: ServerConnection.ISettings,
  name: string,
  args: Record<string, unknown> = {}
): Promise<T> {
  const url = URLExt.join(settings.baseUrl, PREFIX, name);
  let response: Response;
  try {
    response = await ServerConnection.makeRequest(
      url,
      {
        method: 'POST',
        body: JSON.stringify(args),
        headers: { 'Content-Type': 'application/json' }
      },
      settings
    );
  } catch {
    throw new SlurmError(unreachable(), 0);
  }
  const text = await response.text();
  if (!response.ok) {
    throw new SlurmError(problemOf(text, response), response.status);
  }
  return (text === '' ? null : JSON.parse(text)) as T;
}

/** The address of the WebSocket that carries what is watched. */
export function watchUrl(settings: ServerConnection.ISettings): string {
  const token = settings.appendToken && settings.token ? { token: settings.token } : {};
  return URLExt.join(settings.wsUrl, PREFIX, 'watch') + URLExt.objectToQueryString(token);
}

export function unreachable(): Problem {
  return problem('server-unreachable', 'The Jupyter server cannot be reached.', {
    hint: 'What is shown may be old. It is tried again.',
    transient: true
  });
}

function problemOf(text: string, { status, statusText }: Response): Problem {
  try {
    const { code, message, ...more } = JSON.parse(text) as Partial<Problem>;
    if (code !== undefined && message !== undefined) {
      return problem(code, message, more);
    }
  } catch {
    // Not ours: a proxy's page, perhaps.
  }
  const message = `The Jupyter server answered ${status} ${statusText}.`;
  return problem('server', message, { transient: status >= 500 });
}
