import { said, told, toldBeside } from '../messages';
import type { Message, Problem } from '../wire';

function message(text: string, args: Message['args'] = {}): Message {
  return { text, args };
}

test.each<[Message, string]>([
  [message('On hold (by you).'), 'On hold (by you).'],
  [
    message('Started on {first} and {others} more.', { first: 'n1', others: '2' }),
    'Started on n1 and 2 more.'
  ],
  [message('Log in: `{slurm} login`.'), 'Log in: `jupyter slurm login`.'],
  [message('{1} {2}', { '1': message('One.'), '2': message('{n}.', { n: 'Two' }) }), 'One. Two.'],
  [message('No {such} place.'), 'No {such} place.']
])('arguments fill the places of a message: %j', (one, text) => expect(said(one)).toBe(text));

test.each(['$&', '$1', '%1', '{by}', '[(.*', '\\', '</b><script>'])(
  'a value is copied unchanged: %s',
  by => expect(said(message('Cancelled by {by}.', { by }))).toBe(`Cancelled by ${by}.`)
);

test('beside a Log in button the hint is left out', () => {
  const needed: Problem = {
    code: 'login-needed',
    message: 'gate asks for an answer that only you can give.',
    hint: message('Log in: `{slurm} login`.'),
    detail: null,
    option: null,
    transient: true
  };
  expect(told(needed)).toBe(
    'gate asks for an answer that only you can give. Log in: `jupyter slurm login`.'
  );
  expect(toldBeside(needed)).toBe(needed.message);
  const other = { ...needed, code: 'unreachable' };
  expect(toldBeside(other)).toBe(told(other));
});
