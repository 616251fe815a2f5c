// Line charts.
import {h, short} from "./ui.js";

const names = "http://www.w3.org/2000/svg";
function s(tag, props, text) {
  const e = document.createElementNS(names, tag);
  for (const [name, value] of Object.entries(props)) e.setAttribute(name, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

// chart draws series {name, about, values: [[x, y]]}. label(x) writes the ends of the axis. The y axis includes 0, unless tight is
// set and the values lie in a small part of it.
export function chart(title, series, label, tight) {
  const points = series.flatMap((x) => x.values);
  const width = 400, height = 150, left = 44, bottom = 18, top = 6;
  const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  const from = xs.reduce((a, b) => Math.min(a, b), Infinity), to = Math.max(xs.reduce((a, b) => Math.max(a, b), -Infinity), from + 1e-9);
  const least = ys.reduce((a, b) => Math.min(a, b), Infinity), most = ys.reduce((a, b) => Math.max(a, b), -Infinity);
  const narrow = tight && ys.length && most > least && (most - least) * 2 < Math.max(Math.abs(least), Math.abs(most));
  const low = narrow ? least : Math.min(0, ...ys.length ? [least] : []), upper = Math.max(0, ...ys.length ? [most] : []);
  const high = narrow ? most : upper > low ? upper : low + 1; // where all values are 0
  const x = (v) => left + (v - from) / (to - from) * (width - left - 4), y = (v) => height - bottom - (v - low) / (high - low) * (height - bottom - top);
  const last = series.map((c) => c.name + " " + (c.values.length ? short(c.values.at(-1)[1]) : "-")).join(", ");
  const svg = s("svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title + ": " + last});
  for (const v of [low, (low + high) / 2, high]) {
    svg.append(s("line", {class: "grid", x1: left, x2: width - 4, y1: y(v), y2: y(v)}), s("text", {x: left - 4, y: y(v) + 4, "text-anchor": "end"}, short(v)));
  }
  if (points.length) svg.append(s("text", {x: left, y: height - 4}, label(from)), s("text", {x: width - 4, y: height - 4, "text-anchor": "end"}, label(to)));
  series.forEach((c, i) => svg.append(s("polyline", {class: "line s" + i % 4, points: c.values.map(([a, b]) => x(a).toFixed(1) + "," + y(b).toFixed(1)).join(" ")})));
  const legend = series.flatMap((c, i) => [h("span", {class: "s" + i % 4, title: c.about}, "■ "), c.name + " " + (c.values.length ? short(c.values.at(-1)[1]) : "-") + "  "]);
  return h("figure", {}, h("figcaption", {class: "muted"}, title, h("br"), ...legend), svg);
}
