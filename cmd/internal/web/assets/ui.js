// Elements and texts. Everything that comes from the cluster goes through text nodes or attributes, never through markup.

// h makes an element: h("a", {href: "#x", class: "name"}, "text", child). A function is a listener.
export function h(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") e.addEventListener(name, value);
    else if (value === true) e.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) e.setAttribute(name, value);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined).map((c) => c instanceof Node ? c : String(c)));
  return e;
}

export const short = (v) => v >= 100 ? v.toFixed(0) : String(Number(v.toPrecision(3)));
export const cores = (milli) => short(milli / 1000);
export const devices = (milli) => String(Number((milli / 1000).toFixed(2)));
export const fraction = ([used, of]) => of > 0 ? used / of : used > 0 ? 1 : 0;
export const percent = (f) => Math.round(f * 100) + "%";
// share draws a fraction as a bar with its percentage. A fraction that is not known is a dash.
export const share = (f) => f === null ? "-" : h("span", {class: "share"}, h("meter", {value: Math.min(f, 1), min: "0", max: "1", low: "0.7", high: "0.9", optimum: "0", "aria-hidden": "true"}), h("span", {}, percent(f)));
export function bytes(b) {
  const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
  let u = 0;
  for (; b >= 1024 && u < units.length - 1; u++) b /= 1024;
  return short(b) + units[u];
}
export const clock = (time) => { const t = new Date(time); return !(t > 0) ? "-" : t.toLocaleTimeString("en-GB"); };
export function age(time) {
  const s = Math.max(0, (Date.now() - new Date(time)) / 1000);
  if (!(s < 3e9)) return "-";
  return s < 120 ? Math.round(s) + "s" : s < 7200 ? Math.round(s / 60) + "m" : s < 172800 ? Math.round(s / 3600) + "h" : Math.round(s / 86400) + "d";
}
export function micro(us) {
  return us > 0 ? us >= 1000 ? (us / 1000).toFixed(us >= 1e4 ? 0 : 1) + " ms" : Math.round(us) + " µs" : "-";
}

// natural compares texts with numbers in them by value.
const order = new Intl.Collator("en", {numeric: true});
export const natural = (a, b) => order.compare(a, b);

// cell makes the cell of a column for a row. A column has title, text(row) or node(row), and may have right and name.
const cell = (column, row) => h("td", {class: column.right ? "right" : column.name ? "name" : null}, column.node ? column.node(row) : column.text(row));
export const tableRow = (columns, row, key) => h("tr", {"data-key": key}, ...columns.map((c) => cell(c, row)));

// table makes a table of rows. key(row), if given, tells update which row is which.
export function table(caption, columns, rows, key) {
  return h("div", {class: "wide"}, h("table", {},
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, ...columns.map((c) => h("th", {scope: "col", class: c.right ? "right" : null}, c.head || c.title)))),
    h("tbody", {}, ...rows.map((r) => tableRow(columns, r, key?.(r))))));
}

// update makes the children of an element like the given ones. It keeps elements that are there already, with the reader's focus,
// selection and scrolled parts, and changes their texts and attributes; elements with data-key are found by it. Listeners of kept elements
// stay the old ones, so they may use nothing that belongs to one drawing.
export function update(element, ...children) {
  const list = children.filter((c) => c !== null && c !== undefined).map((c) => c instanceof Node ? c : document.createTextNode(c));
  const key = (e) => e.dataset?.key, named = new Map(), others = [];
  for (const e of element.childNodes) {
    if (key(e) === undefined) others.push(e);
    else named.set(key(e), e);
  }
  const matches = list.map((next) => {
    const name = key(next), old = name === undefined ? others.shift() : named.get(name);
    if (name !== undefined) named.delete(name);
    return old?.nodeName === next.nodeName ? old : null;
  });
  const wanted = new Set(matches);
  for (const e of [...element.childNodes]) if (!wanted.has(e)) e.remove();
  let at = element.firstChild;
  list.forEach((next, i) => {
    const old = matches[i];
    if (old === at && old) at = at.nextSibling;
    else element.insertBefore(old || next, at);
    if (old) alike(old, next);
  });
}

// alike makes a text or an element like the next one.
function alike(old, next) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  for (const name of old.getAttributeNames()) if (!next.hasAttribute(name)) old.removeAttribute(name);
  for (const name of next.getAttributeNames()) if (old.getAttribute(name) !== next.getAttribute(name)) old.setAttribute(name, next.getAttribute(name));
  update(old, ...next.childNodes);
}

export const nodeLink = (name) => h("a", {href: "#node/" + encodeURIComponent(name)}, name);

// get asks the server for JSON. It fails with what the server says.
export async function get(path, signal) {
  const response = await fetch(path, {signal});
  if (!response.ok) throw new Error((await response.text()).slice(0, 300));
  return response.json();
}

// every calls do now and every so many milliseconds while the page is seen, until the returned function is called.
export function every(milliseconds, act) {
  let ended = false, timer = 0;
  const round = async () => {
    if (!document.hidden) await act();
    if (!ended) timer = setTimeout(round, milliseconds);
  };
  round();
  return () => { ended = true; clearTimeout(timer); };
}
