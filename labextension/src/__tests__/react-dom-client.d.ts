// The part of react-dom that tests of views need. JupyterLab provides the package without its
// types.
declare module 'react-dom/client' {
  import type { ReactNode } from 'react';

  export interface Root {
    render(node: ReactNode): void;
    unmount(): void;
  }

  export function createRoot(container: Element): Root;
}
