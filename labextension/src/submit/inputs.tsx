// The fields of the form: text, lines, code, count and choice, each with its label and a hint or an
// error below it.
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
  /** Suggestions. */
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

/** A count; without a maximum `most` is null. */
export function Count({
  value,
  change,
  most,
  ...field
}: Omit<TextProps, 'list'> & { most: number | null }): JSX.Element {
  return (
    <Field {...field}>
      {ids => (
        <input
          {...ids}
          type="number"
          min={0}
          max={most ?? undefined}
          value={value}
          onChange={event => change(event.currentTarget.value)}
        />
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
  // A value that is no longer offered stays visible. The server reports what is wrong with it.
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
