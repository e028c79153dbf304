// The waiting room of a lab, a page of the server's: it shows how far the lab is and then goes in.
import { PageConfig, URLExt } from '@jupyterlab/coreutils';

export function roomUrl(id: string): string {
  return URLExt.join(PageConfig.getBaseUrl(), 'jupyter-slurm/lab', id);
}

export function dashboardUrl(id: string, name: string): string {
  return URLExt.join(PageConfig.getBaseUrl(), 'jupyter-slurm/dashboard', id, name);
}

/**
 * A tab, now: a browser opens none later, when the deed that asked for it is long over. What it
 * shows is told to it afterwards; until then it shows `meanwhile`.
 */
export function newTab(meanwhile = ''): Tab {
  const opened = window.open('', '_blank');
  if (opened !== null) {
    const { body, documentElement } = opened.document;
    documentElement.style.colorScheme = 'light dark';
    body.style.font = '15px/1.5 system-ui, sans-serif';
    body.style.margin = '12vh auto';
    body.style.maxWidth = '46rem';
    body.textContent = meanwhile;
  }
  return {
    enter: url => {
      if (opened === null) {
        return false;
      }
      opened.opener = null;
      opened.location.href = url;
      return true;
    },
    close: () => opened?.close()
  };
}

export interface Tab {
  /** Shows that page of the server's; false: the browser lets no tab be opened. */
  enter: (url: string) => boolean;
  close: () => void;
}
