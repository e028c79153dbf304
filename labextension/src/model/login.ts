// A login. Dialogs ask its questions until the connection is open, cancelled, or opened in another
// tab. question.ts draws a question. Answers are not stored.
import { isOpen } from '../format';
import { SlurmError } from '../server';
import type { ISlurmModel } from '../tokens';
import type { Connection, Question } from '../wire';
import type { Login } from './model';
import { questionDialog } from './question';

const WAIT_S = 20;

/** The reply to a question. `elsewhere` means that another tab or kernel has answered it. */
type Reply = { text: string } | 'given-up' | 'elsewhere';

export const login: Login = async (model, cluster) => {
  const watched = model.watchJobs();
  try {
    return await logIn(model, cluster);
  } finally {
    watched.dispose();
  }
};

async function logIn(model: ISlurmModel, cluster: string): Promise<boolean> {
  let connection = await join(model, cluster);
  const answered = new Set<string>();
  for (;;) {
    const { question } = connection;
    if (question !== null) {
      const reply = await put(model, connection, question, answered);
      if (reply === 'elsewhere') {
        return await followed(model, cluster);
      }
      if (reply === 'given-up') {
        await giveUp(model, question);
        return false;
      }
      answered.add(question.id);
      connection = await model.call<Connection>('answer', {
        question_id: question.id,
        text: reply.text,
        wait_s: WAIT_S
      });
    } else if (isUnderWay(connection)) {
      connection = await join(model, cluster);
    } else {
      return isOpen(connection);
    }
  }
}

function join(model: ISlurmModel, cluster: string): Promise<Connection> {
  return model.call('connect', { cluster, wait_s: WAIT_S });
}

/**
 * Cancel the login, and ignore its expected error. Wait for its end. Otherwise the next login would
 * receive the error and fail.
 */
async function giveUp(model: ISlurmModel, { id }: Question): Promise<void> {
  try {
    await model.call('answer', { question_id: id, text: null, wait_s: WAIT_S });
  } catch (error) {
    if (!(error instanceof SlurmError) || error.problem.code !== 'login') {
      throw error;
    }
  }
}

/** Wait for a login that another client answers. */
function followed(model: ISlurmModel, cluster: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const look = (): void => {
      const connection = model.connections.get(cluster);
      if (connection !== undefined && isUnderWay(connection)) {
        return;
      }
      model.changed.disconnect(look);
      const open = connection !== undefined && isOpen(connection);
      if (!open && connection?.problem) {
        reject(new SlurmError(connection.problem, 401));
      } else {
        resolve(open);
      }
    };
    model.changed.connect(look);
    look();
  });
}

async function put(
  model: ISlurmModel,
  connection: Connection,
  question: Question,
  before: ReadonlySet<string>
): Promise<Reply> {
  const dialog = questionDialog(question, connection);
  const stop = whenAnswered(model, question, before, () => dialog.reject());
  try {
    const result = await dialog.launch();
    if (stop.answered) {
      return 'elsewhere';
    }
    return result.button.accept ? { text: result.value ?? '' } : 'given-up';
  } finally {
    stop.dispose();
  }
}

/**
 * Call `then` once the server reports the question, and stop afterwards. News may arrive later than
 * answers, and may be about an earlier question (`before`) that was answered in this tab.
 */
function whenAnswered(
  model: ISlurmModel,
  question: Question,
  before: ReadonlySet<string>,
  then: () => void
): { readonly answered: boolean; dispose(): void } {
  let seen = false;
  let answered = false;
  const look = (): void => {
    const now = model.connections.get(question.cluster);
    const asked = now?.question?.id;
    if (asked === question.id) {
      seen = true;
    } else if (now === undefined || answered || (asked !== undefined && before.has(asked))) {
      return;
    } else if (seen || asked !== undefined || isOpen(now)) {
      answered = true;
      then();
    }
  };
  model.changed.connect(look);
  return {
    get answered() {
      return answered;
    },
    dispose: () => {
      model.changed.disconnect(look);
    }
  };
}

function isUnderWay({ state }: Connection): boolean {
  return state === 'connecting' || state === 'asking';
}
