import { pieces } from '../pieces';
import { asTerminal, plain } from '../terminal';

const ESC = '\u001b';

describe('terminal output', () => {
  test.each([
    ['a rewritten progress line', '10%\r20%\r30%\n', '30%\n'],
    ["another system's line ends", 'a\r\nb\r\n', 'a\nb\n'],
    ['a line before it is overwritten', '10%\r', '10%\r'],
    ['several carriage returns at the end', '10%\r\r', '10%\r'],
    ['a spinner', '|\b/\b-\b\\', '\\'],
    ['a title', `${ESC}]0;title\u0007text`, 'text'],
    ['a link', `${ESC}]8;;http://x${ESC}\\here${ESC}]8;;${ESC}\\`, 'here'],
    ['erasing a line', `${ESC}[2K${ESC}[1Gtext`, 'text'],
    ['hiding the cursor', `${ESC}[?25ltext${ESC}[?25h`, 'text'],
    ['colours, which are kept', `${ESC}[31mred${ESC}[0m`, `${ESC}[31mred${ESC}[0m`],
    ['a bell and a null', 'a\u0007b\u0000c', 'abc'],
    ['a title that never ends', `${ESC}]0;title\ntext`, `${ESC}]0;title\ntext`]
  ])('%s', (_, text, shown) => expect(asTerminal(text)).toBe(shown));
});

describe('colours', () => {
  test("theme colours have JupyterLab's class names", () =>
    expect(pieces('', `a${ESC}[1;31mb${ESC}[0mc${ESC}[92md`)).toEqual([
      { text: 'a', className: '', color: null, background: null },
      { text: 'b', className: 'ansi-red-fg ansi-bold', color: null, background: null },
      { text: 'c', className: '', color: null, background: null },
      { text: 'd', className: 'ansi-green-intense-fg', color: null, background: null }
    ]));

  test.each([
    ['38;5;196', 'rgb(255, 0, 0)'],
    ['38;5;244', 'rgb(128, 128, 128)'],
    ['38;2;1;2;3', 'rgb(1, 2, 3)'],
    ['38:2::1:2:3', 'rgb(1, 2, 3)']
  ])('%s', (code, color) =>
    expect(pieces('', `${ESC}[${code}mx`)).toMatchObject([{ text: 'x', color, className: '' }])
  );

  test('markup is shown as text', () =>
    expect(pieces('', `${ESC}[31m<b>&amp;`)).toMatchObject([{ text: '<b>&amp;' }]));

  test('an incomplete sequence is not shown', () => {
    expect(plain(`text${ESC}[3`)).toBe('text');
    expect(pieces('', `text${ESC}[3`)).toMatchObject([{ text: 'text' }]);
  });
});
