// Elements for the bodies of dialogs. A dialog needs its body before React would draw it.

/** Create an element with these properties and children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Partial<HTMLElementTagNameMap[K]>,
  ...inside: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...inside);
  return element;
}

export function paragraph(text: string, className = ''): HTMLElement {
  return make('p', { className }, text);
}
