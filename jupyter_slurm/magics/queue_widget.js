// The browser half of the queue widget. It draws the state of the Python half (queue_widget.py) and
// sends clicks to it.
// Set text only as text, never as HTML, because other users choose names in the queue.
// queue_widget.css contains the styles. The widget's texts come from Python.

const SAY_SHOWN_MS = 30000;

function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter(Boolean));
  return made;
}

function filled(text, values) {
  return text.replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
}

// Return a button. `label` is visible, and `text` is the accessible name. `{NAME}` in `text` stands
// for a field of `values`.
function button([label, text], values, key, act) {
  const name = filled(text, values);
  const made = element("button", "", label);
  made.type = "button";
  made.title = name;
  made.setAttribute("aria-label", name);
  made.dataset.key = key;
  made.addEventListener("click", act);
  return made;
}

// The state of one view: the widget's texts, and the job whose cancellation awaits confirmation.
class Asking {
  constructor(words, redraw) {
    this.id = null;
    this.words = words;
    this.redraw = redraw;
  }

  set(id, focused) {
    this.id = id;
    this.redraw(focused);
  }
}

function question(row, send, asking) {
  const keep = () => asking.set(null, `cancel ${row.id}`);
  const cancel = () => {
    send({ do: "cancel", id: row.id });
    asking.set(null, `log ${row.id}`);
  };
  const asked = element(
    "div", "",
    button(asking.words.confirm, row, `yes ${row.id}`, cancel),
    button(asking.words.keep, row, `no ${row.id}`, keep)
  );
  asked.firstChild.classList.add("ends");
  asked.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    keep();
  });
  return asked;
}

function actions(row, send, asking) {
  if (!row.ours) return null;
  if (row.live && asking.id === row.id) return question(row, send, asking);
  const made = element("div", "");
  const add = (verb, act = () => send({ do: verb, id: row.id })) => made.append(
    button(asking.words[verb], row, `${verb} ${row.id}`, act)
  );
  add("log");
  if (row.live && row.held) add("release");
  if (row.live && !row.held && !row.nodes) add("hold");
  if (row.live) add("cancel", () => asking.set(row.id, `no ${row.id}`));
  return made;
}

// Return a table cell with one line. Its tooltip has the full text.
function cell(first, rest, title) {
  const more = rest.filter(Boolean).join(" · ");
  const made = element("td", "", first, more && element("span", "muted", first && " · ", more));
  made.title = title ?? made.textContent;
  return made;
}

function line(row, send, asking) {
  const state = element("span", "state", row.state.replace(" ", "\u00a0"));  // keep the sign and its word on one line
  if (row.colour) state.style.setProperty("--state", row.colour);
  return element(
    "tr", "",
    cell(row.name, [row.user], [row.name, row.id, row.user].filter(Boolean).join(" · ")),
    cell(state, [row.time, row.note]),
    cell(row.nodes, [row.partition]),
    element("td", "", actions(row, send, asking))
  );
}

// Update the rows. Keep unchanged rows, because the user may be clicking on them. Keep the keyboard
// focus on the same button, or move it to the first button of the same row.
function draw(body, rows, send, asking, focused) {
  const active = body.getRootNode().activeElement;
  const key = focused ?? (body.contains(active) ? active.dataset.key : null);
  const wanted = rows.map((row) => JSON.stringify([row, asking.id === row.id]));
  const kept = new Set(wanted);
  for (const there of [...body.children]) {
    if (!kept.has(there.dataset.of)) there.remove();
  }
  rows.forEach((row, at) => {
    const there = body.children[at];
    if (there?.dataset.of === wanted[at]) return;
    const made = line(row, send, asking);
    made.dataset.of = wanted[at];
    body.insertBefore(made, there ?? null);
  });
  while (body.children.length > rows.length) body.lastChild.remove();
  if (!key) return;
  const buttons = [...body.querySelectorAll("button")];
  const id = key.split(" ")[1];
  const next = buttons.find((one) => one.dataset.key === key) ??
    buttons.find((one) => one.dataset.key.endsWith(` ${id}`));
  next?.focus();
}

function head(names) {
  const cells = names.map((name) => {
    const cell = element("th", "", name);
    cell.scope = "col";
    return cell;
  });
  return element("thead", "", element("tr", "", ...cells));
}

function everyoneSwitch(model, label) {
  const box = element("input");
  box.type = "checkbox";
  box.checked = model.get("everyone");
  box.addEventListener("change", () => {
    model.set("everyone", box.checked);
    model.save_changes();
  });
  return element("label", "", box, label);
}

function logPanel(model, words, close) {
  const title = element("span");
  const text = element("pre");
  text.tabIndex = 0;
  text.setAttribute("aria-label", words.end_of_log);
  const bar = element("div", "bar", title, button(words.close, {}, "close", close));
  const made = element("section", "log", bar, text);
  made.setAttribute("aria-label", words.log[0]);
  const fill = () => {
    // Follow new text only if the user has not scrolled up.
    const atEnd = made.hidden || text.scrollHeight - text.scrollTop - text.clientHeight < 8;
    made.hidden = !model.get("log_of");
    title.textContent = filled(words.log_of, { title: model.get("log_of") });
    text.textContent = model.get("log");
    if (atEnd) text.scrollTop = text.scrollHeight;
  };
  return [made, fill];
}

function render({ model, el }) {
  const words = model.get("words");
  const send = (message) => model.send(message);
  const asOf = element("span", "muted");
  const message = element("div", "message");
  message.setAttribute("role", "status");
  const body = element("tbody");
  const table = element("div", "rows", element("table", "", head(words.head), body));
  table.tabIndex = 0;
  table.setAttribute("role", "region");
  table.setAttribute("aria-label", words.jobs);
  const [log, fillLog] = logPanel(model, words, () => {
    model.set({ log: "", log_of: "" });
    model.save_changes();
  });
  el.classList.add("jupyter-slurm-queue");
  el.append(element("div", "bar", everyoneSwitch(model, words.everyone), asOf), table, message, log);

  const redraw = (focused) => {
    const rows = model.get("rows");
    table.hidden = !rows.length;
    draw(body, rows, send, asking, focused);
  };
  const asking = new Asking(words, redraw);
  const on = (names, act) => {
    const events = names.map((name) => `change:${name}`).join(" ");
    model.on(events, act);
    act();
    return () => model.off(events, act);
  };
  const offs = [
    on(["rows"], () => redraw()),
    on(["as_of"], () => { asOf.textContent = model.get("as_of"); }),
    on(["message"], () => { message.textContent = model.get("message"); }),
    on(["log", "log_of"], fillLog),
  ];
  const sayShown = () => { if (!document.hidden) send({ do: "shown" }); };
  sayShown();
  const timer = window.setInterval(sayShown, SAY_SHOWN_MS);
  document.addEventListener("visibilitychange", sayShown);
  return () => {
    window.clearInterval(timer);
    document.removeEventListener("visibilitychange", sayShown);
    offs.forEach((off) => off());
    send({ do: "hidden" });
  };
}

export default { render };
