// The waiting room: a page of the server that shows the state of a lab or dashboard, and then opens
// it.
import { PageConfig, URLExt } from '@jupyterlab/coreutils';

export function roomUrl(id: string): string {
  return URLExt.join(PageConfig.getBaseUrl(), 'jupyter-slurm/lab', id);
}

export function dashboardUrl(id: string, name: string): string {
  return URLExt.join(PageConfig.getBaseUrl(), 'jupyter-slurm/dashboard', id, name);
}

/**
 * Open a tab now, while the browser allows it. The tab shows `meanwhile` until it gets its page.
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
      opened.location.href = url;
      return true;
    },
    close: () => opened?.close()
  };
}

export interface Tab {
  /**
   * Show the page at this URL; the tab cannot go back from it. Return false if the browser blocked
   * the tab.
   */
  enter: (url: string) => boolean;
  close: () => void;
}
