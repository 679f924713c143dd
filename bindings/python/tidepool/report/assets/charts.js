// Memory over time, the address map, and the curve of budgets, drawn with uPlot.

const GUTTER = 76;
const MS = 1e6;

// Series of the memory chart from the ground up; the chart draws them from the top down, each over
// what is above it.
const STACK = [0, 1, 2, 3, 4, 5, 6];
let memoryChart = null, mapChart = null, curveChart = null;

const axisStyle = () => ({
  stroke: () => palette.soft, font: "12px system-ui, sans-serif",
  grid: {stroke: () => palette.grid, width: 1}, ticks: {show: false},
});

function timeAxis() {
  return {...axisStyle(), size: 34, values: (chart, marks) => marks.map((ms) => timeMark(ms, marks))};
}

function timeMark(ms, marks) {
  const longest = Math.max(...marks.filter((mark) => mark !== null));
  const step = marks.length > 1 ? marks[1] - marks[0] : longest;
  const [unit, size] = longest >= 2000 ? ["s", 1000] : longest >= 2 ? ["ms", 1] : ["µs", 0.001];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return `${(ms / size).toFixed(Math.min(digits, 4))} ${unit}`;
}

// Splits that are round in powers of two.
function byteSplits(chart, axis, low, high) {
  const wanted = (high - low) / 5;
  let step = 2 ** Math.floor(Math.log2(wanted));
  if (wanted / step > 1.5) step *= 2;
  const splits = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) splits.push(at);
  return splits;
}

function byteAxis() {
  return {...axisStyle(), size: GUTTER, splits: byteSplits,
          values: (chart, marks) => marks.map((mark) => bytes(mark).replace(/\.0+ /, " "))};
}

function width() {
  return byId("memory").clientWidth;
}

function hatch() {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.strokeStyle = palette.roles[6];
  pen.lineWidth = 1.5;
  for (const shift of [-8, 0, 8]) {
    pen.moveTo(shift, 8);
    pen.lineTo(shift + 8, 0);
  }
  pen.stroke();
  return pen.createPattern(tile, "repeat");
}

function stepMarks(chart) {
  const begin = chart.scales.x.min, end = chart.scales.x.max;
  const shown = DATA.stepEnds.map((ns) => ns / MS).filter((ms) => ms > begin && ms < end);
  if (shown.length > 80) return;
  const pen = chart.ctx;
  pen.save();
  pen.strokeStyle = palette.soft;
  pen.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
  pen.lineWidth = devicePixelRatio;
  for (const ms of shown) {
    const x = Math.round(chart.valToPos(ms, "x", true));
    pen.beginPath();
    pen.moveTo(x, chart.bbox.top);
    pen.lineTo(x, chart.bbox.top + chart.bbox.height);
    pen.stroke();
  }
  pen.restore();
}

function shared(extra) {
  return {
    legend: {show: false}, padding: [8, 24, 0, 0],
    cursor: {sync: {key: "time"}, drag: {x: true, y: false, setScale: true}, points: {show: false},
             bind: {dblclick: () => () => { choose(state.view.begin, state.view.end); }}},
    ...extra,
    hooks: {
      setScale: [(chart, key) => {
        if (key === "x" && chart.ready) choose(chart.scales.x.min * MS, chart.scales.x.max * MS);
      }],
      ready: [(chart) => { chart.ready = true; }],
      ...extra.hooks,
    },
  };
}

function drawMemory() {
  const view = state.view, holder = byId("memory");
  view.used = view.times.map((_, k) => view.roles.slice(0, 6).reduce((sum, of) => sum + of[k], 0));
  const buckets = view.times.length, length = (view.end - view.begin) / buckets;
  const xs = view.times.map((_, k) => (view.begin + k * length) / MS);
  const sums = view.times.map(() => 0);
  const stacked = STACK.map((role) => view.roles[role].map((size, k) => sums[k] += size));
  const top = Math.max(DATA.budget, ...stacked[6]) * 1.04;
  const stepped = uPlot.paths.stepped({align: 1});
  palette.hatch = hatch();
  const areas = [...STACK].reverse().map((role) => ({
    label: DATA.roles[role], paths: stepped, width: 0, points: {show: false},
    fill: () => role === 6 ? palette.hatch : palette.roles[role], stroke: "transparent",
  }));
  // Areas are opaque, so that each hides what lies below it of those drawn before; the hatched one
  // is drawn first, and what it must not cover follows.
  const options = shared({
    width: width(), height: 300, series: [{}, ...areas,
      {label: "held", paths: stepped, width: 1, stroke: () => palette.text, points: {show: false}},
      {label: "budget", width: 2, dash: [7, 5], stroke: () => palette.budget,
       points: {show: false}}],
    scales: {x: {time: false}, y: {range: () => [0, top]}},
    axes: [timeAxis(), byteAxis()],
    hooks: {draw: [stepMarks], setCursor: [showMemory]},
  });
  holder.replaceChildren();
  memoryChart = new uPlot(options, [xs, ...[...stacked].reverse(), view.held,
                                    xs.map(() => DATA.budget)], holder);
}

// The bucket of the range that holds most.
function fullestBucket() {
  const view = state.view, used = view.used;
  let best = -1;
  for (let k = 0; k < used.length; ++k) {
    if (view.times[k] < state.begin || view.times[k] > state.end) continue;
    if (best < 0 || used[k] > used[best]) best = k;
  }
  return Math.max(best, 0);
}

function showMemory(chart) {
  const place = chart.cursor.idx;
  const legend = byId("memory-legend");
  const shown = place === null || place === undefined ? fullestBucket() : place;
  const value = (list) => bytes(list[shown]);
  const entries = STACK.map((role) => element("span", {}, swatch(role), DATA.roles[role],
                                              element("b", {text: value(state.view.roles[role])})));
  entries.push(
    element("span", {}, element("i", {class: "swatch thin"}), "held from the device",
            element("b", {text: value(state.view.held)})),
    element("span", {}, element("i", {class: "swatch dash"}), "budget",
            element("b", {text: bytes(DATA.budget)})));
  legend.replaceChildren(...entries);
}

// -- the address map -------------------------------------------------------------------------------

// Calls `found` with address, bytes and group of each block of a column.
function forBlocks(column, found) {
  let at = 0;
  const runs = column[1];
  for (let k = 0; k < runs.length; k += 3) {
    at += runs[k];
    found(at, runs[k + 1], runs[k + 2]);
    at += runs[k + 1];
  }
}

// Finds the stretches of addresses that are used at some time: where each begins, and how far from
// the ground it is drawn. Unused ones between them are left out but for a narrow seam.
function findStretches(view) {
  const spans = [];
  for (const column of view.columns) {
    forBlocks(column, (at, size) => { spans.push([at, at + size]); });
  }
  spans.sort((a, b) => a[0] - b[0]);
  const least = view.highest / 200;
  const stretches = [];
  for (const [begin, end] of spans) {
    const last = stretches[stretches.length - 1];
    if (last && begin - last.end < least) last.end = Math.max(last.end, end);
    else stretches.push({begin, end});
  }
  const seam = stretches.reduce((sum, each) => sum + each.end - each.begin, 0) / 60;
  let top = 0;
  for (const each of stretches) {
    each.drawn = top;
    top += each.end - each.begin + seam;
  }
  view.stretches = stretches;
  view.top = Math.max(top - seam, 1);
}

function drawnAt(address, hint) {
  const stretches = state.view.stretches;
  let k = hint;
  while (k + 1 < stretches.length && stretches[k + 1].begin <= address) ++k;
  return [stretches[k].drawn + address - stretches[k].begin, k];
}

function drawSeams(chart) {
  const pen = chart.ctx, stretches = state.view.stretches;
  pen.fillStyle = palette.grid;
  for (let k = 1; k < stretches.length; ++k) {
    const before = stretches[k - 1];
    const low = chart.valToPos(before.drawn + before.end - before.begin, "y", true);
    const high = chart.valToPos(stretches[k].drawn, "y", true);
    pen.fillRect(chart.bbox.left, high, chart.bbox.width, Math.max(low - high, 1));
  }
}

function drawBlocks(chart) {
  const {left, top, width: wide, height} = chart.bbox;
  const pen = chart.ctx, view = state.view, columns = view.columns;
  pen.save();
  pen.beginPath();
  pen.rect(left, top, wide, height);
  pen.clip();
  drawSeams(chart);
  const length = (view.end - view.begin) / columns.length / MS;
  columns.forEach((column, k) => {
    const x = Math.floor(chart.valToPos(view.begin / MS + k * length, "x", true));
    const right = Math.ceil(chart.valToPos(view.begin / MS + (k + 1) * length, "x", true));
    if (right < left || x > left + wide) return;
    let hint = 0, from = 0;
    forBlocks(column, (at, size, group) => {
      [from, hint] = drawnAt(at, hint);
      const low = chart.valToPos(from, "y", true), high = chart.valToPos(from + size, "y", true);
      pen.fillStyle = palette.roles[groupOf(group)[ROLE]];
      const tall = low - high;
      pen.fillRect(x, high, right - x, tall > 3 ? tall - 1 : Math.max(tall, 0.7));
    });
  });
  pen.restore();
}

function columnAt(ms) {
  const view = state.view, columns = view.columns;
  const place = Math.floor((ms * MS - view.begin) / (view.end - view.begin) * columns.length);
  return columns[Math.min(Math.max(place, 0), columns.length - 1)];
}

function showBlock(chart) {
  const tip = byId("map-tip"), {left, top} = chart.cursor;
  tip.hidden = true;
  if (left < 0 || top < 0) return;
  const column = columnAt(chart.posToVal(left, "x")), address = chart.posToVal(top, "y");
  let block = null, hint = 0, from = 0;
  forBlocks(column, (at, size, group) => {
    [from, hint] = drawnAt(at, hint);
    if (address >= from && address < from + size) block = [at, size, group];
  });
  if (block === null) return;
  const group = groupOf(block[2]);
  tip.replaceChildren(
    element("div", {}, swatch(group[ROLE]), ` ${DATA.roles[group[ROLE]]}, ${bytes(block[1])} at `
                                            + bytes(block[0])),
    element("div", {class: "code", text: [operatorText(group), moduleText(group)].filter(Boolean)
                                            .join(" · ")}),
    element("div", {class: "code", text: lineOf(group)}));
  tip.hidden = false;
  const box = chart.over.getBoundingClientRect();
  const x = box.left + left + 14 + tip.offsetWidth > innerWidth ? left - tip.offsetWidth - 14
                                                                : left + 14;
  tip.style.left = `${box.left + scrollX + x}px`;
  tip.style.top = `${box.top + scrollY + top + 14}px`;
}

function drawMap() {
  const view = state.view, holder = byId("map");
  if (!view.stretches) findStretches(view);
  const options = shared({
    width: width(), height: 260,
    series: [{}, {stroke: "transparent", points: {show: false}}],
    scales: {x: {time: false}, y: {range: () => [0, view.top]}},
    axes: [{...timeAxis(), grid: {show: false}}, {...byteAxis(), grid: {show: false}}],
    hooks: {drawClear: [drawBlocks], draw: [stepMarks], setCursor: [showBlock]},
  });
  holder.replaceChildren();
  mapChart = new uPlot(options, [memoryChart.data[0], memoryChart.data[0].map(() => 0)], holder);
  mapChart.over.addEventListener("mouseleave", () => { byId("map-tip").hidden = true; });
}

function showFragmentation() {
  const view = state.view, bucket = fullestBucket();
  const used = view.used[bucket], held = Math.max(view.held[bucket], used);
  const lost = held - used;
  const moved = [DATA.moves > 0 ? `${count(DATA.moves, "block")} (${bytes(DATA.movedBytes)}) copied`
                                : "",
                 DATA.remappedBytes > 0 ? `${bytes(DATA.remappedBytes)} of pages mapped elsewhere`
                                        : ""].filter(Boolean).join(" and ");
  byId("fragmentation").replaceChildren(
    `At the fullest moment (${time(view.times[bucket])}) blocks take ${bytes(used)} of the `
    + `${bytes(held)} held from the device: `,
    element("b", {text: `${share(lost, held) || "0 %"} is lost to holes`}),
    moved ? `. To join holes, ${moved} in the whole recording. `
          : ". No block had to be moved to join holes. ",
    "Stretches of addresses that nothing uses are left out.");
  return {lost, held};
}

// -- budgets ---------------------------------------------------------------------------------------

function drawCurve() {
  const points = DATA.curve.filter((point) => point.runs), holder = byId("curve");
  const xs = points.map((point) => 100 * point.budget_bytes / DATA.peak);
  const ys = points.map((point) => 100 * (point.overhead - 1));
  const chosen = 100 * DATA.budget / DATA.peak;
  const top = Math.max(10, ...ys) * 1.08;
  holder.replaceChildren();
  curveChart = new uPlot({
    width: holder.clientWidth, height: 260, padding: [8, 12, 0, 0], legend: {show: false},
    cursor: {drag: {x: false, y: false}, y: false},
    scales: {x: {time: false, range: () => [Math.min(15, xs[0] - 5), 105]},
             y: {range: () => [0, top]}},
    series: [{}, {stroke: () => palette.accent, width: 2,
                  points: {show: true, size: 7, fill: () => palette.page}}],
    axes: [{...axisStyle(), size: 30, label: "budget, % of the peak without one", labelSize: 22,
            labelFont: "12px system-ui, sans-serif",
            values: (chart, marks) => marks.map((mark) => `${mark} %`)},
           {...axisStyle(), size: 58, label: "more time", labelSize: 22,
            labelFont: "12px system-ui, sans-serif",
            values: (chart, marks) => marks.map((mark) => `+${mark} %`)}],
    hooks: {draw: [(chart) => {
      const pen = chart.ctx, x = Math.round(chart.valToPos(chosen, "x", true));
      pen.save();
      pen.strokeStyle = palette.budget;
      pen.setLineDash([7, 5]);
      pen.lineWidth = 2;
      pen.beginPath();
      pen.moveTo(x, chart.bbox.top);
      pen.lineTo(x, chart.bbox.top + chart.bbox.height);
      pen.stroke();
      pen.restore();
    }]},
  }, [xs, ys], holder);
}
