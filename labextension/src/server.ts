// Calls of the Jupyter server, and the URL of its WebSocket. It does not depend on any view.
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { problem } from './messages';
import type { Problem } from './wire';

/** An error with a message of the agent or the server. */
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

/** Call `name` on the server. Reject with a SlurmError, even if the server is unreachable. */
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

/** The URL of the WebSocket for watches. */
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
    // Our server extension did not send this answer. It may be a proxy's page.
  }
  const message = `The Jupyter server answered ${status} ${statusText}.`;
  return problem('server', message, { transient: status >= 500 });
}
