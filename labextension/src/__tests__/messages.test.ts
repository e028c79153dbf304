import { said } from '../messages';
import type { Message } from '../wire';

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
