// The expression is the list of what people with poor sight or a screen reader miss in the page that is shown: controls and pictures
// without an accessible name, as Chromium computes it, and text whose contrast with what is behind it is below 4.5, as WCAG 2 defines it.
// Disabled controls need no contrast there.
(() => {
  const faults = new Set();
  const named = "svg, img, canvas, input, button, select, textarea, meter, a[href], summary";
  const where = (e) => {
    let text = e.tagName.toLowerCase();
    if (e.id) text += "#" + e.id;
    for (const c of e.classList) text += "." + c;
    return text;
  };
  const hidden = (e) => e.closest("[aria-hidden=true]") !== null;
  const shown = (e) => e.checkVisibility({visibilityProperty: true}) && e.getClientRects().length > 0;

  for (const e of document.querySelectorAll(named)) {
    if (e.computedName === undefined) return ["this Chromium does not tell accessible names"];
    if (!shown(e) || hidden(e) || e.parentElement?.closest("svg")) continue;
    if (e.computedName.trim() === "") faults.add(where(e) + " has no name");
  }

  // A colour is red, green, blue and alpha, 0 to 1. The browser converts what CSS may say.
  const paint = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const cache = new Map();
  const colour = (text) => {
    if (!cache.has(text)) {
      paint.clearRect(0, 0, 1, 1);
      paint.fillStyle = text;
      paint.fillRect(0, 0, 1, 1);
      cache.set(text, Array.from(paint.getImageData(0, 0, 1, 1).data, (v) => v / 255));
    }
    return cache.get(text);
  };
  const over = (front, back) => [0, 1, 2].map((i) => front[3] * front[i] + (1 - front[3]) * back[i]).concat(1);
  const page = () => colour(getComputedStyle(document.documentElement).colorScheme.includes("dark") && matchMedia("(prefers-color-scheme: dark)").matches ? "#121212" : "#ffffff");
  const behind = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) {
      const c = colour(getComputedStyle(at).backgroundColor);
      if (c[3] > 0) layers.push(c);
      if (c[3] === 1) break;
    }
    return layers.reduceRight((back, front) => over(front, back), page());
  };
  const luminance = (c) => {
    const [r, g, b] = c.map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const check = (e, text, own) => {
    const back = behind(e), front = colour(own).slice();
    for (let at = e; at; at = at.parentElement) front[3] *= Number(getComputedStyle(at).opacity);
    const ratio = contrast(over(front, back), back);
    if (ratio < 4.5) faults.add(`${where(e)} "${text.trim().slice(0, 30)}" has a contrast of ${ratio.toFixed(2)}`);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement, text = texts.currentNode.data;
    if (text.trim() === "" || e.closest("script, style, noscript, option, :disabled, svg title, svg desc") || !shown(e)) continue;
    const style = getComputedStyle(e);
    check(e, text, e.namespaceURI.endsWith("svg") ? style.fill : style.color);
  }
  for (const e of document.querySelectorAll("input, select, textarea")) {
    if (!shown(e) || e.disabled || ["range", "checkbox", "radio"].includes(e.type)) continue;
    check(e, e.value || "its value", getComputedStyle(e).color);
    if (e.placeholder) check(e, e.placeholder, getComputedStyle(e, "::placeholder").color);
  }
  return Array.from(faults);
})()
