// A bar in JupyterLab's own page that names the job: its color, name, node, GPUs, the time left and
// "End". JupyterLab 3 and later load this file like any extension. It is written by hand, because
// the node has no build tools.
'use strict';
(() => {
  const NAME = 'jupyter-slurm-lab';
  const LOOK_MS = 30_000;
  const SOON_S = 600;
  /** The bar's colors. The job's ID selects one. White text is legible on all of them. */
  const COLOURS = ['#a8326b', '#7b3fb5', '#00786f', '#a34a00', '#3f6b00', '#8a5a00', '#00688f'];
  const STYLE = `
    #jp-top-panel::after { content: ''; position: absolute; inset: 0 0 auto; height: 3px;
      pointer-events: none; background: var(--jslurm-colour); z-index: 100; }
    #${NAME} { display: flex; align-items: center; gap: 8px; margin-left: auto; padding: 3px 8px 0;
      flex: 0 1 auto; min-width: 0; white-space: nowrap; color: var(--jp-ui-font-color1);
      font-size: var(--jp-ui-font-size1); }
    #${NAME} > * { flex: none; }
    #${NAME} > .jslurm-name { flex: 0 1 auto; min-width: 2ch; max-width: 30ch; overflow: hidden;
      text-overflow: ellipsis; padding: 0 8px; border-radius: 9px; line-height: 18px; color: #fff;
      background: var(--jslurm-colour); }
    #${NAME} > .jslurm-soon { font-weight: 600; }
    #${NAME} > button { border: 1px solid var(--jp-border-color1); border-radius: 3px;
      padding: 0 8px; line-height: 18px; background: none; color: inherit; font: inherit;
      cursor: pointer; }
    #${NAME} > button:hover { background: var(--jp-layout-color2); }
    #${NAME} > button:focus-visible { outline: 2px solid var(--jp-brand-color1); }
    /* The tooltip shows the parts that are hidden or cut off below. */
    @media (max-width: 1000px) {
      #${NAME} > .jslurm-gpus { display: none; }
    }
    @media (max-width: 700px) {
      #${NAME} { flex: none; gap: 4px; padding: 3px 4px 0; }
      #${NAME} > .jslurm-name, #${NAME} > button { padding: 0 5px; }
      #${NAME} > .jslurm-name { max-width: 8ch; }
      #${NAME} > .jslurm-node { display: none; }
      /* Users reach menus that do not fit by scrolling, by swiping or with keys. */
      #jp-menu-panel { flex: 0 1 auto; min-width: 0; }
      #jp-MainMenu { overflow-x: auto; scrollbar-width: none; }
    }
    /* With its sidebar open, JupyterLab is wider than this window. */
    @media (max-width: 360px) {
      #${NAME} { padding-right: 20px; }
    }`;
  const script = document.currentScript.src;
  let modules = {};
  let trans;

  /** A module that JupyterLab shares with its extensions. */
  async function shared(name) {
    const [{ get }] = Object.values(modules[name]);
    return (await get())();
  }

  /** The header that marks requests from the server's pages. JupyterHub requires it to read files. */
  function ourPage() {
    const xsrf = /(?:^|; *)_xsrf=([^;]*)/.exec(document.cookie)?.[1];
    return xsrf === undefined ? {} : { 'X-XSRFToken': xsrf };
  }

  /** Fetches a file from this file's folder. */
  function beside(name) {
    return fetch(new URL(name, script), { cache: 'no-store', headers: ourPage() });
  }

  /** The facts that lab.py wrote, and the time by the node's clock. */
  async function facts() {
    const answer = await beside('facts.json');
    return { ...(await answer.json()), now_s: Date.parse(answer.headers.get('Date')) / 1000 };
  }

  /** This file's texts in the page's language, or in English. */
  class Translations {
    texts = {};

    async read(language) {
      if (language !== undefined && language !== 'en') {
        const all = await beside('lab_page.json').then(answer => answer.json());
        this.texts = all[language] ?? {};
      }
    }

    __(text, ...values) {
      const [form] = this.texts[text] ?? [text];
      return form.replace(/%(\d)/g, (_, at) => values[at - 1]);
    }

    /** Returns the text for a count above 0. */
    _n(one, many, count) {
      const [few, more] = this.texts[one] ?? [one, many];
      return (count > 1 ? more : few).replace('%1', count);
    }
  }

  function colourOf(id) {
    const sum = [...id].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 9973, 0);
    return COLOURS[sum % COLOURS.length];
  }

  function span(seconds) {
    const minutes = Math.floor(seconds / 60);
    const [days, hours] = [Math.floor(minutes / 1440), Math.floor(minutes / 60) % 24];
    if (days > 0) {
      return trans.__('%1 d %2 h', days, hours);
    }
    return hours > 0
      ? trans.__('%1 h %2 min', hours, minutes % 60)
      : trans.__('%1 min', minutes);
  }

  function part(kind, tag = 'span') {
    const node = document.createElement(tag);
    node.className = `jslurm-${kind}`;
    return node;
  }

  class Bar {
    constructor(node) {
      this.parts = Object.fromEntries(
        ['name', 'node', 'gpus', 'left'].map(kind => [kind, part(kind)])
      );
      node.id = NAME;
      node.setAttribute('role', 'group');
      node.setAttribute('aria-label', trans.__('Slurm job'));
      const style = document.createElement('style');
      style.textContent = STYLE;
      document.head.append(style);
      node.append(...Object.values(this.parts));
    }

    tell(told) {
      const { end_s, now_s } = told;
      this.show({ ...told, left_s: end_s === null ? null : Math.max(0, end_s - now_s) });
    }

    show({ id, name, node, gpus, left_s }) {
      document.documentElement.style.setProperty('--jslurm-colour', colourOf(id));
      const has = gpus > 0 ? trans._n('%1 GPU', '%1 GPUs', gpus) : '';
      const all = [trans.__('Slurm job %1 (%2)', name, id), node, has];
      this.say('name', name, all.filter(Boolean).join('\n'));
      this.say('node', node, trans.__('Node'));
      this.say('gpus', has);
      const left = left_s === null ? '' : trans.__('%1 left', span(left_s));
      this.say('left', left, trans.__('Until the time limit'));
      this.parts.left.classList.toggle('jslurm-soon', left_s !== null && left_s < SOON_S);
    }

    say(kind, text, title = '') {
      const node = this.parts[kind];
      node.hidden = text === '';
      if (node.textContent !== text) {
        node.textContent = text;
      }
      node.title = title;
    }
  }

  function button(kind, text, title, act) {
    const node = part(kind, 'button');
    Object.assign(node, { textContent: text, title, ariaLabel: text });
    node.addEventListener('click', act);
    return node;
  }

  /** Saves all documents, then runs JupyterLab's own command, which asks and ends the server. */
  function endButtons(app) {
    const command = 'filemenu:shutdown';
    if (!app.commands.hasCommand(command) || !app.commands.isVisible(command)) {
      return [];
    }
    const title = trans.__('Shut down JupyterLab, which ends the job');
    const save = 'docmanager:save-all';
    const end = async () => {
      if (app.commands.hasCommand(save)) {
        await app.commands.execute(save).catch(() => undefined); // JupyterLab shows the error
      }
      await app.commands.execute(command);
    };
    return [button('end', trans.__('End'), title, () => void end())];
  }

  async function activate(app, translator) {
    trans = new Translations();
    await trans.read(translator?.languageCode).catch(() => undefined);
    const { Widget } = await shared('@lumino/widgets');
    const widget = new Widget();
    const bar = new Bar(widget.node);
    const look = async () => {
      if (!document.hidden) {
        // The page itself reports a lost connection.
        await facts().then(
          told => bar.tell(told),
          () => undefined
        );
      }
    };
    await look();
    app.shell.add(widget, 'top', { rank: 1000 });
    document.addEventListener('visibilitychange', look);
    setInterval(look, LOOK_MS);
    app.restored.then(() => {
      widget.node.append(...endButtons(app));
    });
  }

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB[NAME] = {
    init: given => {
      modules = given;
    },
    get: async () => {
      const { ITranslator } = await shared('@jupyterlab/translation');
      const bar = { id: `${NAME}:bar`, autoStart: true, optional: [ITranslator], activate };
      return () => ({ __esModule: true, default: bar });
    }
  };
})();
