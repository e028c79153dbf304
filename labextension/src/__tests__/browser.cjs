// What Jupyter's packages want of a browser as soon as they are loaded, and jsdom has not.
globalThis.DragEvent ??= class DragEvent extends MouseEvent {};
globalThis.ResizeObserver ??= class ResizeObserver {
  observe() {}
  unobserve() {}
  disconnect() {}
};
globalThis.matchMedia ??= () => ({ matches: false, addListener() {}, removeListener() {} });
globalThis.requestIdleCallback ??= call => setTimeout(call, 0);
Object.defineProperty(document, 'queryCommandSupported', { value: () => true });
const { TextDecoder, TextEncoder } = require('util');
globalThis.TextDecoder ??= TextDecoder;
globalThis.TextEncoder ??= TextEncoder;
