// What the other parts share: units, elements, colours, and the page's state.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

function bytes(count) {
  let unit = 0;
  while (Math.abs(count) >= 1024 && unit < UNITS.length - 1) {
    count /= 1024;
    ++unit;
  }
  const digits = unit === 0 || Math.abs(count) >= 100 ? 0 : Math.abs(count) >= 10 ? 1 : 2;
  return `${count.toFixed(digits)} ${UNITS[unit]}`;
}

function time(ns) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (ns >= size) {
      const count = ns / size;
      return `${count.toFixed(count >= 100 ? 0 : count >= 10 ? 1 : 2)} ${unit}`;
    }
  }
  return `${Math.round(ns)} ns`;
}

function share(part, whole) {
  return whole > 0 ? `${(100 * part / whole).toFixed(part / whole >= 0.0995 ? 0 : 1)} %` : "";
}

const whole = new Intl.NumberFormat("en");
const count = (number, noun) => `${whole.format(number)} ${noun}${number === 1 ? "" : "s"}`;

function element(name, options = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") made.className = value;
    else if (key === "text") made.textContent = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

const byId = (id) => document.getElementById(id);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The colours as they are now, read once for each redrawing.
let palette = {};
function readPalette() {
  palette = {roles: DATA.roles.map((_, k) => color(`--role-${k}`)), hatch: null};
  for (const name of ["page", "line", "grid", "text", "soft", "accent", "budget"]) {
    palette[name] = color(`--${name}`);
  }
}

function swatch(role) {
  return element("i", {class: "swatch", style: `background:var(--role-${role})`});
}

// Buttons of which one is pressed. `chosen` is called with the place of the one that is clicked.
function choice(holder, names, pressed, chosen) {
  holder.replaceChildren(...names.map((name, place) => element("button", {
    type: "button", "aria-pressed": String(place === pressed), text: name,
    onclick: () => {
      [...holder.children].forEach((button, k) => button.setAttribute("aria-pressed",
                                                                     String(k === place)));
      chosen(place);
    },
  })));
}

const [ROLE, OPERATOR, PLACE, PIN] = [0, 1, 2, 3];
let DATA = null;
const state = {view: null, begin: 0, end: 0};  // a view of the data, and the range that is chosen

// Group below zero: what is small of one role, together.
function groupOf(number) {
  return number >= 0 ? DATA.groups[number] : [-1 - number, "", -1, ""];
}

const placeOf = (group) => DATA.places[group[PLACE]] || {};
const shortName = (operator) => operator.replace(/^aten::/, "");

function lineOf(group) {
  const lines = placeOf(group).lines;
  return lines && lines.length ? lines[lines.length - 1] : "";
}

function operatorText(group, number = 0) {
  if (number < 0) return "small ones, together";
  return shortName(group[OPERATOR]) || (group[ROLE] === 5 ? "" : "from outside");
}

function moduleText(group) {
  const place = placeOf(group);
  return (place.module || "") + (place.backward ? " (backward)" : "");
}

async function unpack() {
  const text = atob(byId("data").textContent);
  const packed = Uint8Array.from(text, (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
