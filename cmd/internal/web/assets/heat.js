// The heat map: a cell for each node, zone by zone, on a canvas.
import {h, percent} from "./ui.js";

const points = [[68, 1, 84], [72, 40, 120], [62, 73, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37]];
function rgb(f) {
  const at = Math.min(Math.max(f, 0), 1) * (points.length - 1), i = Math.min(Math.floor(at), points.length - 2);
  return points[i].map((a, k) => Math.round(a + (at - i) * (points[i + 1][k] - a)));
}
export const color = (f) => f > 1.005 ? "#d52b1e" : "rgb(" + rgb(f).join(",") + ")";
const ink = (f) => f <= 1.005 && f > 0.55 ? "#111" : "#fff";

// scale is a picture of the colours.
export function scale() {
  const c = h("canvas", {class: "scale", width: 100, height: 8, role: "img", "aria-label": "colours from 0 % to 100 %"});
  const g = c.getContext("2d");
  for (let x = 0; x < 100; x++) { g.fillStyle = color(x / 100); g.fillRect(x, 0, 1, 8); }
  return c;
}

// heat makes a heat map. show(cells) draws cells {name, zone, value, ready, about}; value null: not known.
// The node mark has a frame. open(name) is called for a click and for Enter.
export function heat(label, open) {
  const canvas = h("canvas", {tabindex: "0", role: "application", "aria-label": label + "; arrow keys choose a node, Enter opens it"});
  const pointed = h("p", {class: "pointed", "aria-live": "polite"});
  let cells = [], places = [], chosen = "", marked = "", side = 12, columns = 1;

  function layout(width) {
    const zones = new Map();
    for (const c of cells) zones.get(c.zone)?.push(c) || zones.set(c.zone, [c]);
    side = Math.max(6, Math.min(76, Math.floor(Math.sqrt(width * 420 / Math.max(cells.length, 1)))));
    columns = Math.max(1, Math.floor(width / side));
    const labels = [];
    let y = 0;
    places = [];
    for (const [zone, list] of zones) {
      if (zone || zones.size > 1) { labels.push([zone || "no zone", y + 13]); y += 18; }
      list.forEach((c, i) => places.push({cell: c, x: i % columns * side, y: y + Math.floor(i / columns) * side}));
      y += Math.ceil(list.length / columns) * side + 6;
    }
    return {labels, height: Math.max(y, 20)};
  }

  function draw() {
    const width = canvas.clientWidth || 600, ratio = devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
    const fg = style.getPropertyValue("--muted"), select = style.getPropertyValue("--select");
    const {labels, height} = layout(width);
    canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.height = height + "px";
    const g = canvas.getContext("2d"), gap = side > 8 ? 2 : 1;
    g.scale(ratio, ratio);
    g.font = "12px system-ui, sans-serif"; g.fillStyle = fg;
    for (const [text, y] of labels) g.fillText(text, 0, y, width);
    for (const {cell, x, y} of places) {
      g.fillStyle = cell.value === null ? fg : color(cell.value);
      g.fillRect(x, y, side - gap, side - gap);
      if (!cell.ready) {
        g.strokeStyle = cell.value === null ? fg : ink(cell.value);
        g.beginPath(); g.moveTo(x + 1, y + 1); g.lineTo(x + side - gap - 1, y + side - gap - 1); g.moveTo(x + side - gap - 1, y + 1); g.lineTo(x + 1, y + side - gap - 1); g.stroke();
      }
      if (side >= 34 && cell.value !== null) {
        g.fillStyle = ink(cell.value);
        g.fillText(percent(cell.value), x + 3, y + side - gap - 5, side - 6);
        if (side >= 52) g.fillText(cell.name, x + 3, y + 14, side - 8);
      }
      if (cell.name === chosen || cell.name === marked) { g.strokeStyle = select; g.lineWidth = 3; g.strokeRect(x + 1, y + 1, side - gap - 2, side - gap - 2); g.lineWidth = 1; }
    }
    describe();
  }
  // describe says what the chosen node is, for readers who do not see its colour.
  function describe() {
    const at = places.find((p) => p.cell.name === chosen);
    pointed.textContent = at ? at.cell.about : "";
  }
  const under = (e) => places.find((p) => e.offsetX >= p.x && e.offsetX < p.x + side && e.offsetY >= p.y && e.offsetY < p.y + side);
  const choose = (p) => { if (p && p.cell.name !== chosen) { chosen = p.cell.name; draw(); } };

  canvas.addEventListener("pointermove", (e) => choose(under(e)));
  canvas.addEventListener("click", (e) => { const p = under(e); if (p) open(p.cell.name); });
  canvas.addEventListener("keydown", (e) => {
    const at = places.findIndex((p) => p.cell.name === chosen), last = places.length - 1;
    const to = {ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + columns, ArrowUp: at - columns, Home: 0, End: last}[e.key];
    if (e.key === "Enter" && at >= 0) return open(chosen);
    if (to === undefined || last < 0) return;
    e.preventDefault();
    choose(places[Math.min(Math.max(at < 0 ? 0 : to, 0), last)]);
  });
  const observer = new ResizeObserver(() => draw());
  observer.observe(canvas);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", draw);
  return {
    element: h("div", {}, pointed, canvas),
    show(list, mark = "") { cells = list; marked = mark; draw(); },
    end() { observer.disconnect(); scheme.removeEventListener("change", draw); },
  };
}
