// Tabs with the usual keys. The ID of the panel is `${id}pane`.
import type { JSX, KeyboardEvent } from 'react';

interface Props<T extends string> {
  id: string;
  label: string;
  tabs: readonly (readonly [name: T, title: string])[];
  shown: T;
  show: (name: T) => void;
}

export function Tabs<T extends string>({ id, label, tabs, shown, show }: Props<T>): JSX.Element {
  const keys = (event: KeyboardEvent): void => {
    const names = tabs.map(([name]) => name);
    const at = names.indexOf(shown);
    const places: Record<string, number> = {
      ArrowRight: (at + 1) % names.length,
      ArrowLeft: (at - 1 + names.length) % names.length,
      Home: 0,
      End: names.length - 1
    };
    const place = places[event.key];
    const next = place === undefined ? undefined : names[place];
    if (next !== undefined) {
      event.preventDefault();
      show(next);
      document.getElementById(id + next)?.focus();
    }
  };
  return (
    <div className="jp-slurm-Tabs" role="tablist" aria-label={label} onKeyDown={keys}>
      {tabs.map(([name, title]) => (
        <button
          key={name}
          id={id + name}
          role="tab"
          aria-selected={name === shown}
          aria-controls={`${id}pane`}
          tabIndex={name === shown ? 0 : -1}
          onClick={() => show(name)}
        >
          {title}
        </button>
      ))}
    </div>
  );
}
