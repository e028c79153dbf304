// Browser features that Jupyter's packages need when they are loaded, and that jsdom lacks.
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
