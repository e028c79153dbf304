import { Signal } from '@lumino/signaling';
import { SlurmError } from '../../server';
import type { ISlurmModel } from '../../tokens';
import type { Connection, Question } from '../../wire';
import { login } from '../login';

/** The parts of a model that a login needs: connections, and answers that the test sets. */
class FakeModel {
  readonly connections = new Map<string, Connection>();
  readonly changed = new Signal<this, void>(this);
  readonly asked: [string, Record<string, unknown>][] = [];
  watchers = 0;
  private readonly answers: (Connection | SlurmError)[] = [];

  watchJobs(): { isDisposed: boolean; dispose(): void } {
    this.watchers += 1;
    return { isDisposed: false, dispose: () => (this.watchers -= 1) };
  }

  /** The answers to the next calls, in this order. */
  will(...answers: (Connection | SlurmError)[]): void {
    this.answers.push(...answers);
  }

  call(name: string, args: Record<string, unknown>): Promise<Connection> {
    this.asked.push([name, args]);
    const answer = this.answers.shift();
    return answer === undefined || answer instanceof SlurmError
      ? Promise.reject(answer ?? new Error(`${name} was not expected`))
      : Promise.resolve(answer);
  }

  tell(connection: Connection): void {
    this.connections.set(connection.cluster, connection);
    this.changed.emit();
  }
}

let model: FakeModel;

function begin(): Promise<boolean> {
  return login(model as unknown as ISlurmModel, 'far');
}

function at(state: Connection['state'], question: Partial<Question> | null = null): Connection {
  const whole = { id: 'q1', cluster: 'far', host: 'me@gate', kind: 'secret' as const };
  return {
    cluster: 'far',
    state,
    since_s: 0,
    hosts: ['me@gate', 'me@far'],
    question:
      question === null
        ? null
        : {
            ...whole,
            prompt: 'Password:',
            instruction: '',
            names_a_key: false,
            refused: false,
            ...question
          },
    problem: null,
    round_trip_s: null
  };
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) {
    await new Promise(resolve => setTimeout(resolve, 0));
  }
}

async function dialog(): Promise<HTMLElement> {
  await settled();
  const found = document.querySelector<HTMLElement>('.jp-Dialog');
  if (found === null) {
    throw new Error('Dialog not found.');
  }
  return found;
}

function press(within: HTMLElement, name: string): void {
  const buttons = [...within.querySelectorAll<HTMLButtonElement>('button')];
  const found = buttons.find(one => one.textContent === name);
  if (found === undefined) {
    throw new Error(`Button ${name} not found.`);
  }
  found.click();
}

beforeEach(() => {
  model = new FakeModel();
});

afterEach(() => {
  expect(document.querySelector('.jp-Dialog')).toBeNull();
  expect(model.watchers).toBe(0);
});

test('a login by key does not ask a question', async () => {
  model.will(at('connecting'), at('open'));
  expect(await begin()).toBe(true);
});

test('a secret is never shown, and is sent only to its question', async () => {
  model.will(at('asking', {}), at('open'));
  const done = begin();
  const shown = await dialog();
  expect(shown.textContent).toContain('Hop 1 of 2 to the cluster far: me@gate → me@far');
  const input = shown.querySelector('input');
  expect([input?.type, input?.autocomplete]).toEqual(['password', 'off']);
  if (input !== null) {
    input.value = 'secret';
  }
  press(shown, 'Answer');
  expect(await done).toBe(true);
  expect(model.asked.at(-1)).toEqual(['answer', { question_id: 'q1', text: 'secret', wait_s: 20 }]);
});

test('a host key is shown in its own block and must be confirmed', async () => {
  const key = 'ED25519 SHA256:abc/def+1';
  const question = {
    kind: 'host-key' as const,
    prompt: 'Is this arandu?',
    instruction: `arandu is new.\n${key}`
  };
  model.will(at('asking', question), at('open'));
  const done = begin();
  const shown = await dialog();
  expect(shown.querySelector('code')?.textContent).toBe(key);
  expect(shown.textContent).toContain('arandu is new.');
  expect(shown.textContent).toContain('Is this arandu?');
  expect(shown.querySelector('input')).toBeNull();
  press(shown, 'Yes, remember this key');
  expect(await done).toBe(true);
  expect(model.asked.at(-1)?.[1].text).toBe('yes');
});

test('a security key must be touched, and then the dialog closes', async () => {
  const touch = { kind: 'touch' as const, prompt: 'Confirm user presence for key ED25519-SK' };
  model.will(at('asking', touch), at('open'));
  const done = begin();
  const shown = await dialog();
  expect(shown.textContent).toContain('Touch your security key');
  expect(shown.querySelector('input')).toBeNull();
  press(shown, 'OK');
  expect(await done).toBe(true);
});

test("a host's messages are shown as plain text", async () => {
  model.will(at('asking', { prompt: '<b>x</b>', instruction: '<img src=x>' }), at('closed'));
  const done = begin();
  const shown = await dialog();
  expect(shown.querySelector('b, img')).toBeNull();
  expect(shown.textContent).toContain('<img src=x>');
  press(shown, 'Cancel login');
  await done;
});

test('a host that imitates our prompts is still shown as the host', async () => {
  const ours = { kind: 'passphrase' as const, prompt: 'Passphrase of the key /k:' };
  const theirs = { ...ours, id: 'q2', kind: 'secret' as const, names_a_key: true };
  model.will(at('asking', ours), at('asking', theirs), at('open'));
  const done = begin();
  const own = await dialog();
  expect(own.textContent).toContain('Unlock a key on this machine');
  expect(own.textContent).toContain('Your answer stays on this machine.');
  expect(own.querySelector('blockquote')).toBeNull();
  expect(own.querySelector('input')?.type).toBe('password');
  press(own, 'Unlock');
  const foreign = await dialog();
  expect(foreign.textContent).toContain('me@gate asks');
  expect(foreign.querySelector('blockquote')?.textContent).toBe('Passphrase of the key /k:');
  expect(foreign.textContent).toContain(
    'Careful: me@gate does not need the passphrase of your key.'
  );
  expect(foreign.textContent).toContain('Your answer is sent to me@gate.');
  press(foreign, 'Answer');
  expect(await done).toBe(true);
});

test('a cancelled login ends, even if it has already failed', async () => {
  const broken = {
    code: 'login',
    message: 'x',
    hint: null,
    detail: null,
    option: null,
    transient: false
  };
  for (const answer of [at('connecting'), new SlurmError(broken, 401)]) {
    model.will(at('asking', {}), answer);
    const done = begin();
    press(await dialog(), 'Cancel login');
    expect(await done).toBe(false);
    expect(model.asked.at(-1)).toEqual(['answer', { question_id: 'q1', text: null, wait_s: 20 }]);
  }
});

test("a question answered in another tab closes, and this tab's login succeeds", async () => {
  model.will(at('asking', {}));
  const done = begin();
  await dialog();
  model.tell(at('asking', {}));
  await dialog();
  model.tell(at('connecting'));
  await settled();
  expect(document.querySelector('.jp-Dialog')).toBeNull();
  model.tell(at('open'));
  expect(await done).toBe(true);
  expect(model.asked).toHaveLength(1);
});
