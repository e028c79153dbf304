// The queue's widget in the browser: draws what Python's half (widgets.py) says, sends clicks back.
// Text is only ever set as text, never as HTML: names in the queue are other people's.

const COLUMNS = ["id", "name", "user", "partition", "state", "where", "note"];
const SAY_SHOWN_MS = 30000;

function element(tag, text, style) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  Object.assign(made.style, style ?? {});
  return made;
}

function button(label, title, act) {
  const made = element("button", label, { marginRight: "4px" });
  made.title = title;
  made.addEventListener("click", act);
  return made;
}

function actions(row, send) {
  const cell = element("td", "", { whiteSpace: "nowrap" });
  if (!row.ours) return cell;
  const add = (verb, label, title) =>
    cell.append(button(label, title, () => send({ do: verb, id: row.id })));
  add("log", "Log", "Show the end of its log");
  if (row.live && row.held) add("release", "Release", "Let it start");
  if (row.live && !row.held && !row.where) add("hold", "Hold", "Keep it from starting");
  if (row.live) {
    cell.append(
      button("Cancel", "End this job", () => {
        if (window.confirm(`Cancel job ${row.id} (${row.name})?`)) send({ do: "cancel", id: row.id });
      })
    );
  }
  return cell;
}

function draw(body, rows, send) {
  body.replaceChildren(
    ...rows.map((row) => {
      const line = element("tr");
      for (const column of COLUMNS) {
        line.append(element("td", row[column], { textAlign: "left", padding: "2px 8px" }));
      }
      line.append(actions(row, send));
      return line;
    })
  );
}

function head() {
  const line = element("tr");
  for (const column of [...COLUMNS, "actions"]) {
    const name = column[0].toUpperCase() + column.slice(1);
    line.append(element("th", name, { textAlign: "left", padding: "2px 8px" }));
  }
  const made = element("thead");
  made.append(line);
  return made;
}

function everyoneSwitch(model) {
  const label = element("label", "", { marginRight: "1em" });
  const box = element("input");
  box.type = "checkbox";
  box.checked = model.get("everyone");
  box.addEventListener("change", () => {
    model.set("everyone", box.checked);
    model.save_changes();
  });
  label.append(box, " everybody's jobs");
  return label;
}

function render({ model, el }) {
  const send = (message) => model.send(message);
  const bar = element("div", "", { marginBottom: "4px" });
  const message = element("span");
  message.setAttribute("role", "status");
  bar.append(everyoneSwitch(model), message);
  const table = element("table", "", { borderCollapse: "collapse" });
  const body = element("tbody");
  table.append(head(), body);
  const log = element("details", "", { display: "none" });
  const logOf = element("summary");
  const logText = element("pre", "", { maxHeight: "20em", overflow: "auto" });
  log.append(logOf, logText);
  el.append(bar, table, log);

  const on = (name, act) => {
    model.on(`change:${name}`, act);
    act();
    return () => model.off(`change:${name}`, act);
  };
  const offs = [
    on("rows", () => draw(body, model.get("rows"), send)),
    on("message", () => { message.textContent = model.get("message"); }),
    on("log", () => { logText.textContent = model.get("log"); }),
    on("log_of", () => {
      logOf.textContent = `Log of ${model.get("log_of")}`;
      log.style.display = model.get("log_of") ? "" : "none";
      log.open = true;
    }),
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
