// The icicle: what was evicted, or is there, by module or by line of code, the outermost on top.

const METRICS = ["time to bring back", "bytes evicted", "memory at the fullest moment"];
const ORDERS = ["by module", "by line"];
const flame = {metric: 0, order: 0, path: []};

// The levels of a group: parts of its module's name, or lines of code; the operator is the last.
function levelsOf(group) {
  const place = placeOf(group);
  const operator = operatorText(group) || "kept for replays, workspaces";
  if (flame.order === 1) {
    return [...(place.lines || []), operator + (place.backward ? " (backward)" : "")];
  }
  // The number of a module in a list stands with the list's name: Gpt, blocks.2, mlp.0.
  const names = place.module ? place.module.split(/\.(?!\d+(?:\.|$))/) : [];
  if (names.length === 0 && place.lines) names.push(lineOf(group));
  return [...names, operator + (place.backward ? " (backward)" : "")];
}

function flameWeights() {
  const weights = new Map();
  const add = (number, weight) => {
    if (weight > 0) weights.set(number, (weights.get(number) || 0) + weight);
  };
  if (flame.metric === 2) {
    const found = fullestWindow();
    for (let k = 0; found && k < found[1].length; k += 3) {
      if (groupOf(found[1][k])[ROLE] !== 6) add(found[1][k], found[1][k + 1]);
    }
  } else {
    for (const [number, sums] of sumLosses()) add(number, flame.metric === 0 ? sums.ns : sums.bytes);
  }
  return weights;
}

function flameTree(weights) {
  const root = {name: "all", weight: 0, children: new Map(), backward: 0};
  for (const [number, weight] of weights) {
    const group = groupOf(number);
    const backward = Boolean(placeOf(group).backward);
    let node = root;
    root.weight += weight;
    const levels = number < 0 ? [`${DATA.roles[group[ROLE]]}, small ones`] : levelsOf(group);
    for (const name of levels) {
      if (!node.children.has(name)) {
        node.children.set(name, {name, weight: 0, children: new Map(), backward: 0});
      }
      node = node.children.get(name);
      node.weight += weight;
      node.backward += backward ? weight : 0;
    }
  }
  return root;
}

function drawFlame() {
  const holder = byId("flame");
  const metric = flame.metric === 0 ? time : bytes;
  let root = flameTree(flameWeights()), top = root;
  const path = [];
  for (const name of flame.path) {
    if (!top.children.has(name)) break;
    top = top.children.get(name);
    path.push(name);
  }
  flame.path = path;
  byId("flame-up").hidden = path.length === 0;
  holder.replaceChildren();
  if (root.weight === 0) {
    holder.style.height = "auto";
    holder.append(element("p", {text: flame.metric === 2 ? "Nothing is there."
      : "Nothing was evicted in this range under this budget."}));
    return;
  }
  const wide = holder.clientWidth;
  let deepest = 0;
  const draw = (node, left, depth, from) => {
    const box = node.weight / top.weight * wide;
    if (box < 2) return;
    deepest = Math.max(deepest, depth);
    const text = `${node.name}  ${metric(node.weight)} (${share(node.weight, root.weight)})`;
    const backward = node.backward > node.weight / 2;
    const fill = backward ? "--flame-c" : depth % 2 ? "--flame-a" : "--flame-b";
    holder.append(element("div", {
      title: text, text: box > 30 ? text : "",
      style: `left:${left}px;top:${depth * 21}px;width:${box}px;background:var(${fill})`,
      onclick: () => {
        flame.path = node === top ? flame.path.slice(0, -1) : [...flame.path, ...from];
        drawFlame();
      },
    }));
    let at = left;
    for (const child of [...node.children.values()].sort((a, b) => b.weight - a.weight)) {
      draw(child, at, depth + 1, [...from, child.name]);
      at += child.weight / top.weight * wide;
    }
  };
  draw(top, 0, 0, []);
  holder.style.height = `${(deepest + 1) * 21}px`;
}
