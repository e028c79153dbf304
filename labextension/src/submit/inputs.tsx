// The kinds of fields of the form: text, number, choice, text of several lines. Each has a label, and
// below it what is to be known of it or what is wrong with it. Nothing of Slurm lives here.
import { useId, type JSX, type ReactNode } from 'react';
import type { Sentence } from './sentences';

interface FieldProps {
  label: string;
  hint?: ReactNode;
  said?: Sentence | undefined;
  wide?: boolean;
}

interface Ids {
  id: string;
  'aria-describedby': string;
  'aria-invalid': boolean;
}

function Field({
  label,
  hint = '',
  said,
  wide = false,
  children
}: FieldProps & { children: (ids: Ids) => ReactNode }): JSX.Element {
  const id = useId();
  const wrong = said?.ok === false;
  return (
    <div className="jp-slurm-Field" data-wide={wide} data-wrong={wrong}>
      <label htmlFor={id}>{label}</label>
      {children({ id, 'aria-describedby': `${id}told`, 'aria-invalid': wrong })}
      <div id={`${id}told`} className="jp-slurm-FieldHint">
        {said === undefined ? hint : <Told said={said} />}
      </div>
    </div>
  );
}

/** An error or a warning. */
export function Told({ said }: { said: Sentence }): JSX.Element {
  return (
    <>
      <span aria-hidden="true">{said.ok === false ? '✖ ' : '⚠ '}</span>
      {said.text}
    </>
  );
}

export interface TextProps extends FieldProps {
  value: string;
  change: (value: string) => void;
  /** Suggestions; anything else may be typed. */
  list?: readonly (readonly [value: string, told: string])[];
}

export function Text({ value, change, list = [], ...field }: TextProps): JSX.Element {
  return (
    <Field {...field}>
      {ids => (
        <>
          <input
            {...ids}
            type="text"
            autoComplete="off"
            spellCheck={false}
            value={value}
            list={list.length > 0 ? `${ids.id}list` : undefined}
            onChange={event => change(event.currentTarget.value)}
          />
          {list.length > 0 ? (
            <datalist id={`${ids.id}list`}>
              {list.map(([one, told]) => (
                <option key={one} value={one} label={told === '' ? undefined : told} />
              ))}
            </datalist>
          ) : null}
        </>
      )}
    </Field>
  );
}

export function Lines({
  value,
  change,
  rows,
  ...field
}: Omit<TextProps, 'list'> & { rows: number }): JSX.Element {
  return (
    <Field {...field}>
      {ids => (
        <textarea
          {...ids}
          rows={rows}
          spellCheck={false}
          value={value}
          onChange={event => change(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

/** A count, with buttons for one less and one more. */
export function Stepper({
  value,
  change,
  most,
  less,
  more,
  ...field
}: Omit<TextProps, 'list'> & {
  most: number | null;
  less: string;
  more: string;
}): JSX.Element {
  const count = Number(value) || 0;
  const full = most !== null && count >= most;
  // Not `disabled`: that would take the focus away from who presses it.
  const step = (by: number): void => {
    const next = Math.max(0, count + (by > 0 && full ? 0 : by));
    change(next === 0 ? '' : String(next));
  };
  return (
    <Field {...field}>
      {ids => (
        <div className="jp-slurm-Stepper">
          <button
            type="button"
            aria-label={less}
            aria-disabled={count <= 0}
            onClick={() => step(-1)}
          >
            −
          </button>
          <input
            {...ids}
            type="text"
            inputMode="numeric"
            autoComplete="off"
            value={value}
            onChange={event => change(event.currentTarget.value)}
          />
          <button type="button" aria-label={more} aria-disabled={full} onClick={() => step(1)}>
            +
          </button>
        </div>
      )}
    </Field>
  );
}

export interface Option {
  value: string;
  text: string;
  disabled?: boolean;
}

export function Choice({
  value,
  change,
  options,
  ...field
}: Omit<TextProps, 'list'> & { options: readonly Option[] }): JSX.Element {
  // What was chosen and is no longer offered is shown, and the server says what is wrong with it.
  const there = options.some(one => one.value === value);
  const all = there ? options : [...options, { value, text: value }];
  return (
    <Field {...field}>
      {ids => (
        <select {...ids} value={value} onChange={event => change(event.currentTarget.value)}>
          {all.map(one => (
            <option
              key={one.value}
              value={one.value}
              disabled={one.disabled === true && one.value !== value}
            >
              {one.text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
