// The page: which view and range are chosen, and what follows from them.

let choosing = false;

// Chooses a range of the view; charts and tables follow.
function choose(begin, end) {
  const view = state.view;
  begin = Math.max(view.begin, begin);
  end = Math.min(view.end, end);
  if (choosing || end <= begin || begin === state.begin && end === state.end) return;
  choosing = true;
  [state.begin, state.end] = [begin, end];
  for (const chart of [memoryChart, mapChart]) {
    if (chart) chart.setScale("x", {min: begin / MS, max: end / MS});
  }
  choosing = false;
  showRange();
}

function showRange() {
  const view = state.view, all = state.begin === view.begin && state.end === view.end;
  byId("span").textContent = `${view.name}${all ? "" : `, ${time(state.begin - view.begin)} to `
    + time(state.end - view.begin)} (${time(state.end - state.begin)})`;
  byId("reset").hidden = all;
  const fragments = showFragmentation();
  showHolders();
  showPins();
  showLosses();
  showTiles(fragments);
}

function tile(target, value, text) {
  return element("a", {class: "tile", href: `#${target}`}, element("b", {text: value}),
                 element("span", {text}));
}

function showTiles(fragments) {
  const losses = [...sumLosses().values()], pins = totalOf(pinRows(fullestWindow()));
  const evictions = losses.reduce((sum, row) => sum + row.evictions, 0);
  const replays = sumReplays();
  const more = `+${(100 * (DATA.overhead - 1)).toFixed(1)} % time`;
  const head = DATA.recorded
    ? [tile("memory", bytes(DATA.peak), "in use at the fullest moment"),
       tile("losses", bytes(DATA.budget), `budget: ${more} by replays and searches`)]
    : [tile("memory", bytes(DATA.peak), "peak without a budget"),
       tile("curve", bytes(DATA.budget),
            `budget shown, ${share(DATA.budget, DATA.peak)} of the peak: ${more}`)];
  byId("tiles").replaceChildren(
    ...head,
    tile("losses", whole.format(evictions),
         `evictions, ${count(replays.count, "replay")} in ${time(replays.ns)}`),
    tile("pins", bytes(pins), `cannot leave, ${share(pins, DATA.budget)} of the budget`),
    tile("map", fragments ? share(fragments.lost, fragments.held) || "0 %" : "",
         "of held memory is free at the fullest moment"));
}

function showView(place) {
  state.view = DATA.views[place];
  [state.begin, state.end] = [state.view.begin, state.view.end];
  flame.path = [];
  redraw();
  showRange();
}

function redraw() {
  readPalette();
  choosing = true;
  drawMemory();
  showMemory(memoryChart);
  drawMap();
  for (const chart of [memoryChart, mapChart]) {
    chart.setScale("x", {min: state.begin / MS, max: state.end / MS});
  }
  choosing = false;
  if (DATA.curve.length > 0) drawCurve();
  drawFlame();
}

function showNotes() {
  const [view] = DATA.views, bucket = (view.end - view.begin) / view.times.length;
  const notes = [
    `Made by Tidepool ${DATA.version} from ${DATA.file}: ${count(DATA.events, "event")}, `
    + `${count(DATA.operators, "operator call")}, ${count(DATA.storages, "tensor")}, `
    + `${count(DATA.steps, "step")}, on ${DATA.device}.`,
    ...DATA.recorded ? recordingNotes() : traceNotes(),
    `Memory over time has ${view.times.length} points (${time(bucket)} each), each the fullest `
    + `moment of its span; the address map has ${view.columns.length} columns and the lists of `
    + `what is there ${view.windows.length}, likewise. ${whole.format(DATA.changes)} changes of `
    + "memory were read for them. Peaks are exact; what happens between is left out.",
    "In the address map neighbours of one kind that are smaller than a pixel are drawn as one; in "
    + "lists, kinds below 0.1 % are shown together.",
    `Evictions and replays are summed up in ${view.bins} spans of time.`,
    "Charts are drawn by uPlot, whose licence follows."];
  byId("notes").replaceChildren(...notes.filter(Boolean).map((text) => element("li", {text})));
}

function traceNotes() {
  return [
    "A trace says what the job does, and nothing of evictions: a job has the same trace under "
    + `every budget. What is evicted here is what ${DATA.program} does with the trace under the `
    + "budget shown, by the allocator and the policy that jobs have; times are those of the "
    + "recorded operators, of replays and of copies. The bookkeeping of a running job is not in "
    + "them: `tidepool probe` measures it.",
    `Shown is the last of ${DATA.iterations} runs of the trace, when plans are found and in use.`,
    DATA.curveSteps < DATA.steps
      ? `The curve of budgets was simulated on the first ${count(DATA.curveSteps, "step")}.` : null,
    "A change of memory counts at the beginning of the operator during or after which it happens.",
    DATA.places.length === 0 ? "The trace does not say where operators are called: record it again "
      + "with this version for modules and lines of code." : null];
}

function recordingNotes() {
  const {lost, ended, searchesNs, budgets, shortages} = DATA.recorded;
  return [
    "A recording has what was done for the job while it ran, at the times at which that happened, "
    + "and operators' names, but not where in the job's code they are called: a trace has that.",
    ended ? null : "The job did not end in order: this is what it had done by then.",
    lost > 0 ? `${count(lost, "earlier event")} had to make room for later ones: a larger `
      + "--record-size keeps more." : null,
    `Searches for room took ${time(searchesNs)}.`,
    ...budgets.map(([at, size]) => `The budget became ${bytes(size)} after ${time(at)}.`),
    ...shortages.map(([at, size]) => `A request of ${bytes(size)} ran out of memory after `
      + `${time(at)}.`)];
}

function startTheme() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const set = (isDark) => { root.dataset.theme = isDark ? "dark" : "light"; };
  set(dark.matches);
  const changed = () => {
    redraw();
    byId("theme").textContent = root.dataset.theme === "dark" ? "Light" : "Dark";
  };
  byId("theme").textContent = dark.matches ? "Light" : "Dark";
  byId("theme").addEventListener("click", () => { set(root.dataset.theme !== "dark"); changed(); });
  dark.addEventListener("change", () => { set(dark.matches); changed(); });
}

async function start() {
  DATA = await unpack();
  for (const each of DATA.details) DETAILS.set(each[0], each);
  startTheme();
  byId("title").textContent = DATA.name;
  byId("subtitle").textContent = DATA.recorded
    ? `${count(DATA.steps, "step")} on ${DATA.device} as the job ran, under a budget of `
      + bytes(DATA.budget)
    : `${count(DATA.steps, "step")} on ${DATA.device}, simulated under `
    + `a budget of ${bytes(DATA.budget)}, ${share(DATA.budget, DATA.peak)} of the peak`;
  choice(byId("views"), DATA.views.map((view) => view.name), 0, showView);
  if (DATA.views.length < 2) byId("views").hidden = true;
  choice(byId("flame-metric"), METRICS, 0, (k) => { flame.metric = k; flame.path = []; drawFlame(); });
  if (DATA.places.length > 0) {
    choice(byId("flame-order"), ORDERS, 0, (k) => { flame.order = k; flame.path = []; drawFlame(); });
  }
  byId("reset").addEventListener("click", () => choose(state.view.begin, state.view.end));
  byId("flame-up").addEventListener("click", () => { flame.path.pop(); drawFlame(); });
  byId("budget-section").hidden = DATA.curve.length === 0;
  if (DATA.curve.length > 0) showBudgets();
  showView(0);
  showNotes();
  let waiting = 0;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 100);
  });
  document.documentElement.dataset.ready = Math.round(performance.now());
}

start();
