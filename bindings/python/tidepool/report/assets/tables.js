// The tables, which follow the range that is chosen.

const SHORT = 12;  // rows of a table until all are asked for

// Sums up what was lost in the range: by group, evictions, bytes, restorations and time.
function sumLosses() {
  const view = state.view, sums = new Map(), length = (view.end - view.begin) / view.bins;
  const first = Math.floor((state.begin - view.begin) / length + 1e-6);
  const last = Math.ceil((state.end - view.begin) / length - 1e-6);
  for (let k = 0; k < view.losses.length; k += 6) {
    if (view.losses[k] < first || view.losses[k] >= last) continue;
    const number = view.losses[k + 1];
    let entry = sums.get(number);
    if (!entry) sums.set(number, entry = {number, evictions: 0, bytes: 0, restored: 0, ns: 0});
    entry.evictions += view.losses[k + 2];
    entry.bytes += view.losses[k + 3];
    entry.restored += view.losses[k + 4];
    entry.ns += view.losses[k + 5];
  }
  return sums;
}

function sumReplays() {
  const view = state.view, length = (view.end - view.begin) / view.bins;
  const first = Math.floor((state.begin - view.begin) / length + 1e-6);
  const last = Math.ceil((state.end - view.begin) / length - 1e-6);
  const sums = {count: 0, ns: 0};
  for (let k = 0; k < view.replays.length; k += 3) {
    if (view.replays[k] < first || view.replays[k] >= last) continue;
    sums.count += view.replays[k + 1];
    sums.ns += view.replays[k + 2];
  }
  return sums;
}

// The list of what was there at the fullest moment of the range; of a short range, the nearest one.
function fullestWindow() {
  let best = null, most = -1;
  const middle = (state.begin + state.end) / 2;
  let nearest = null;
  for (const found of state.view.windows) {
    if (nearest === null || Math.abs(found[0] - middle) < Math.abs(nearest[0] - middle)) {
      nearest = found;
    }
    if (found[0] < state.begin || found[0] > state.end) continue;
    let sum = 0;
    for (let k = 0; k < found[1].length; k += 3) {
      if (groupOf(found[1][k])[ROLE] !== 6) sum += found[1][k + 1];
    }
    if (sum > most) [best, most] = [found, sum];
  }
  return best || nearest;
}

// Makes a table. A column: title, text or node of a row, value to sort by (none: not sorted), class.
// `detail` gives what a click on a row opens; nothing: it opens nothing.
function table(holder, columns, rows, options = {}) {
  const sorted = {column: options.sort ?? -1, down: true, all: false, open: null};
  const body = element("tbody"), head = element("tr");
  const more = element("button", {type: "button", class: "more",
                                  onclick: () => { sorted.all = true; fill(); }});
  const fill = () => {
    const value = sorted.column >= 0 ? columns[sorted.column].value : null;
    const order = value === null ? rows : [...rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return (x < y ? -1 : x > y ? 1 : 0) * (sorted.down ? -1 : 1);
    });
    const shown = sorted.all ? order : order.slice(0, SHORT);
    body.replaceChildren();
    for (const row of shown) {
      const line = element("tr", {class: `${options.detail ? "open-able" : ""} ${
        options.mark && options.mark(row) ? "chosen" : ""}`, tabindex: options.detail ? "0" : null});
      for (const column of columns) {
        const content = column.cell(row);
        line.append(element("td", {class: column.class || ""}, content));
      }
      body.append(line);
      if (!options.detail) continue;
      const toggle = () => {
        const open = line.nextSibling;
        if (open && open.className === "detail") {
          open.remove();
        } else {
          line.after(element("tr", {class: "detail"},
                             element("td", {colspan: String(columns.length)},
                                     ...options.detail(row))));
        }
      };
      line.addEventListener("click", toggle);
      line.addEventListener("keydown", (event) => { if (event.key === "Enter") toggle(); });
    }
    more.hidden = sorted.all || rows.length <= SHORT;
    more.textContent = `Show all ${rows.length}`;
    [...head.children].forEach((cell, k) => {
      if (k === sorted.column) cell.setAttribute("aria-sort",
                                                 sorted.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
  };
  columns.forEach((column, place) => {
    const sortable = Boolean(column.value);
    head.append(element("th", {
      class: `${column.class === "number" ? "number" : ""} ${sortable ? "sortable" : ""}`,
      text: column.title, onclick: () => {
        if (!sortable) return;
        sorted.down = sorted.column === place ? !sorted.down : column.class === "number";
        sorted.column = place;
        fill();
      },
    }));
  });
  fill();
  holder.replaceChildren(element("table", {}, element("thead", {}, head), body), more);
}

// Columns that say what a group is.
function groupColumns(numberOf) {
  const group = (row) => groupOf(numberOf(row));
  const columns = [
    {title: "operator", class: "code", cell: (row) => operatorText(group(row), numberOf(row)),
     value: (row) => operatorText(group(row), numberOf(row))}];
  if (DATA.places.length > 0) {
    columns.push(
      {title: "module", class: "code", cell: (row) => moduleText(group(row)),
       value: (row) => moduleText(group(row))},
      {title: "line", class: "code", cell: (row) => lineOf(group(row)),
       value: (row) => lineOf(group(row))});
  }
  return columns;
}

function stackText(group) {
  const lines = placeOf(group).lines || [];
  return lines.length === 0 ? null
    : element("p", {class: "code"}, ...lines.flatMap((line) => [line, element("br")]));
}

// -- what is there ---------------------------------------------------------------------------------

function holderRows(found) {
  const rows = [];
  for (let k = 0; found && k < found[1].length; k += 3) {
    const [number, size, places] = found[1].slice(k, k + 3);
    if (groupOf(number)[ROLE] !== 6) rows.push({number, size, places});
  }
  return rows;
}

const totalOf = (rows) => rows.reduce((sum, row) => sum + row.size, 0);

function showHolders() {
  const found = fullestWindow(), rows = holderRows(found), total = totalOf(rows);
  byId("holders-at").textContent = `${bytes(total)} at ${time(found[0])}`;
  table(byId("holders"), [
    {title: "bytes", class: "number", cell: (row) => bytes(row.size), value: (row) => row.size},
    {title: "share", class: "number", cell: (row) => share(row.size, total)},
    {title: "tensors", class: "number", cell: (row) => whole.format(row.places),
     value: (row) => row.places},
    {title: "role", class: "role", value: (row) => DATA.roles[groupOf(row.number)[ROLE]],
     cell: (row) => element("span", {}, swatch(groupOf(row.number)[ROLE]),
                            DATA.roles[groupOf(row.number)[ROLE]])},
    ...groupColumns((row) => row.number),
    {title: "can leave", cell: (row) => canLeave(groupOf(row.number)),
     value: (row) => canLeave(groupOf(row.number))},
  ], rows, {sort: 0, detail: (row) => holderDetail(row)});
}

function canLeave(group) {
  return group[PIN] ? "no" : group[ROLE] === 5 ? "not now" : "yes";
}

function holderDetail(row) {
  const group = groupOf(row.number), reason = DATA.reasons[group[PIN]];
  return [
    element("p", {text: reason ? `${reason[1]} ${reason[2]}`
      : group[ROLE] === 5 ? "Workspaces of operators, results of replays that are needed in "
        + "between, dead tensors that an evicted one is computed from, and rounding up of sizes."
      : "It can be evicted: it would be computed again, or copied back, when it is read."}),
    stackText(group)];
}

function pinRows(found) {
  const rows = new Map();
  for (const row of holderRows(found)) {
    const group = groupOf(row.number);
    const small = row.number < 0 ? ["parameters", "optimizer state", "", "inputs"] : [];
    const key = group[PIN] || small[group[ROLE]];
    if (!key) continue;
    if (!rows.has(key)) rows.set(key, {key, size: 0, places: 0, role: group[ROLE], parts: []});
    const entry = rows.get(key);
    entry.size += row.size;
    entry.places += row.places;
    entry.parts.push(row);
  }
  return [...rows.values()];
}

function showPins() {
  const found = fullestWindow(), rows = pinRows(found), total = totalOf(rows);
  byId("pins-at").textContent = `${bytes(total)} at ${time(found[0])}, `
    + `${share(total, DATA.budget)} of the budget`;
  table(byId("pins"), [
    {title: "bytes", class: "number", cell: (row) => bytes(row.size), value: (row) => row.size},
    {title: "of the budget", class: "number", cell: (row) => share(row.size, DATA.budget)},
    {title: "what", class: "role", cell: (row) => element("span", {}, swatch(row.role),
                                                          DATA.reasons[row.key][0])},
    {title: "why", cell: (row) => DATA.reasons[row.key][1]},
    {title: "what to do", cell: (row) => DATA.reasons[row.key][2]},
  ], rows, {sort: 0, detail: (row) => [pinParts(row)]});
}

function pinParts(row) {
  const holder = element("div");
  table(holder, [
    {title: "bytes", class: "number", cell: (part) => bytes(part.size), value: (part) => part.size},
    {title: "tensors", class: "number", cell: (part) => whole.format(part.places)},
    ...groupColumns((part) => part.number)], row.parts, {sort: 0});
  return holder;
}

// -- what was evicted ------------------------------------------------------------------------------

function showLosses() {
  const rows = [...sumLosses().values()], replays = sumReplays();
  const evictions = rows.reduce((sum, row) => sum + row.evictions, 0);
  const size = rows.reduce((sum, row) => sum + row.bytes, 0);
  byId("losses-sum").replaceChildren(
    element("b", {text: `${count(evictions, "eviction")} (${bytes(size)})`}),
    ` and ${count(replays.count, "replay")} that took ${time(replays.ns)}, `
    + `${share(replays.ns, state.end - state.begin)} of this range. A click on a row says why.`);
  table(byId("losses"), [
    {title: "evictions", class: "number", cell: (row) => whole.format(row.evictions),
     value: (row) => row.evictions},
    {title: "bytes", class: "number", cell: (row) => bytes(row.bytes), value: (row) => row.bytes},
    {title: "brought back", class: "number", cell: (row) => whole.format(row.restored),
     value: (row) => row.restored},
    {title: "time for it", class: "number", cell: (row) => time(row.ns), value: (row) => row.ns},
    ...groupColumns((row) => row.number),
  ], rows, {sort: 0, detail: lossDetail});
  drawFlame();
}

const DETAILS = new Map();

function lossDetail(row) {
  const group = groupOf(row.number), found = DETAILS.get(row.number);
  if (!found) return [stackText(group)];
  const [, storages, most, size, cost, causes] = found;
  const gone = row.evictions - row.restored;
  const rate = size > 0 ? cost / (size / 2 ** 20) : 0;
  const cheaper = [...DETAILS.values()].filter((each) => each[4] / each[3] > cost / size).length;
  return [
    element("p", {}, `Evicted as room was needed, and what costs little a MiB goes first: it takes `
      + `${time(cost)} to compute one of ${bytes(size)} again, ${time(rate)} a MiB. Of the `
      + `${count(DETAILS.size, "kind")} of tensors that were evicted, ${cheaper} cost more a MiB.`),
    element("p", {text: `In the whole recording ${count(storages, "tensor")} of this kind `
      + `${storages === 1 ? "was" : "were"} evicted, one of them ${count(most, "time")}. `
      + (most > 1 ? "It went more than once because it was read again in between, and room was "
                    + "short again afterwards." : "None went twice: so many evictions are so many "
                    + "tensors.")
      + (gone > 0 ? ` In this range ${gone} did not come back: they died first, or come later.`
                  : "")}),
    causes.length === 0 ? null : element("p", {}, "Needed back by: ",
      ...causes.flatMap(([name, place, times], k) => [k ? ", " : "",
        element("span", {class: "code", text: `${shortName(name)}${placeText(place)}`}),
        ` (${times}×)`])),
    stackText(group)];
}

function placeText(number) {
  const group = [4, "", number, ""], line = lineOf(group), module = moduleText(group);
  return [module, line].filter(Boolean).map((text) => ` · ${text}`).join("");
}

// -- budgets ---------------------------------------------------------------------------------------

function showBudgets() {
  const at = (part) => DATA.curve.find((point) =>
    Math.abs(point.budget_bytes / DATA.peak - part) < 0.004);
  const half = at(0.5), runs = DATA.curve.filter((point) => point.runs);
  byId("curve-sum").replaceChildren(
    "Half of the peak: ",
    element("b", {text: half && half.runs
      ? `${bytes(half.budget_bytes)} would take ${share(half.overhead - 1, 1)} more time`
      : "does not run"}),
    `. The least budget tried that runs: ${runs.length ? bytes(runs[0].budget_bytes) : "none"}. `,
    element("code", {text: "tidepool probe"}), " proves a budget by a real run.");
  table(byId("budgets"), [
    {title: "budget", class: "number", cell: (point) => bytes(point.budget_bytes)},
    {title: "of the peak", class: "number", cell: (point) => share(point.budget_bytes, DATA.peak)},
    {title: "more time", class: "number",
     cell: (point) => point.runs ? `+${(100 * (point.overhead - 1)).toFixed(1)} %`
                                 : "does not run"},
    {title: "evictions a step", class: "number",
     cell: (point) => point.runs ? whole.format(point.evictions) : ""},
    {title: "replays a step", class: "number",
     cell: (point) => point.runs ? whole.format(point.replays) : ""},
  ], [...DATA.curve].reverse(), {mark: (point) => point.budget_bytes === DATA.budget});
}
