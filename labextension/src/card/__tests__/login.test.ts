import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import { act } from 'react';
import { drawn } from '../../__tests__/drawn';
import { connection, FakeModel } from '../../__tests__/fakes';
import { CommandIDs } from '../../tokens';
import { LOGIN_MIME, LoginNotice } from '../login';

const SAVED = '<b>evil</b>';

afterEach(() => document.body.replaceChildren());

/** A login notice, and the clusters that its button logged in to. */
async function shown(
  model: FakeModel,
  bundle: unknown
): Promise<{ notice: LoginNotice; asked: unknown[] }> {
  const asked: unknown[] = [];
  const commands = new CommandRegistry();
  commands.addCommand(CommandIDs.connect, { execute: args => asked.push(args) });
  const notice = new LoginNotice(model, commands);
  const data = { [LOGIN_MIME]: bundle, 'text/plain': SAVED };
  await drawn(() => {
    Widget.attach(notice, document.body);
    void notice.renderModel({ data } as never);
  });
  return { notice, asked };
}

test('a cluster that needs a login has a button for it, until it is connected', async () => {
  const model = new FakeModel();
  model.connections = new Map([['arandu', connection({ state: 'login-needed' })]]);
  const { notice, asked } = await shown(model, { v: 1, cluster: 'arandu' });
  expect(notice.node.textContent).toMatch(/arandu needs a login.*Log in$/);
  expect(notice.node.textContent).not.toContain('evil');
  notice.node.querySelector('button')?.click();
  expect(asked).toEqual([{ cluster: 'arandu' }]);
  model.connections = new Map([['arandu', connection()]]);
  model.changed.emit();
  await drawn();
  expect(notice.node.textContent).toMatch(/^arandu is connected/);
  expect(notice.node.querySelector('button')).toBeNull();
  expect(model.watchers).toHaveLength(1);
  act(() => notice.dispose());
  expect(model.watchers).toHaveLength(0);
});
