"use strict";
(() => {
  const clusters = JSON.parse(document.getElementById("data").textContent).clusters;
  const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
  const absent = alphabet.length - 1;
  const points = [[68, 1, 84], [72, 40, 120], [62, 73, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37]];
  const percent = (level) => 2 * level;
  const color = (level) => {
    if (percent(level) > 101) return "#d52b1e";
    const at = percent(level) / 100 * (points.length - 1), i = Math.min(Math.floor(at), points.length - 2), f = at - i;
    return "rgb(" + points[i].map((a, k) => Math.round(a + f * (points[i + 1][k] - a))).join(",") + ")";
  };
  const levels = (line) => Array.from(line, (c) => alphabet.indexOf(c));

  // heat connects the slider of a scenario with the pictures of its contenders.
  function heat(root) {
    const cluster = clusters[root.dataset.cluster];
    if (!cluster) return;
    const slider = root.querySelector(".time"), kind = root.querySelector(".kind"), now = root.querySelector(".now"), play = root.querySelector(".play");
    slider.max = cluster.at.length - 1;
    const maps = Array.from(root.querySelectorAll(".map"), (figure) => map(figure, cluster.maps[figure.dataset.index], cluster.at.length));
    const show = () => {
      const at = Number(slider.value), time = cluster.at[at] + " " + (cluster.unit || "seconds");
      now.textContent = cluster.at[at];
      slider.setAttribute("aria-valuetext", time);
      for (const m of maps) m(at, kind ? kind.value : "cpu");
    };
    let timer = 0;
    const stop = () => { clearInterval(timer); timer = 0; play.textContent = "Play"; play.setAttribute("aria-pressed", "false"); };
    play.addEventListener("click", () => {
      if (timer) return stop();
      play.textContent = "Pause";
      play.setAttribute("aria-pressed", "true");
      if (Number(slider.value) >= Number(slider.max)) slider.value = 0;
      timer = setInterval(() => {
        slider.value = Number(slider.value) + 1;
        show();
        if (Number(slider.value) >= Number(slider.max)) stop();
      }, 120);
    });
    slider.addEventListener("input", show);
    if (kind) kind.addEventListener("change", show);
    for (const film of root.querySelectorAll(".film")) film.addEventListener("click", (e) => {
      const box = film.getBoundingClientRect();
      slider.value = Math.floor((e.clientX - box.left) / box.width * cluster.at.length);
      show();
    });
    addEventListener("resize", show);
    root.querySelector(".controls").hidden = false;
    slider.value = slider.max;
    show();
  }

  // map returns a function that shows one contender at a step of the slider.
  function map(figure, layers, steps) {
    const canvas = figure.querySelector(".nodes"), cursor = figure.querySelector(".cursor"), pointed = figure.querySelector(".pointed");
    const fullest = figure.querySelector(".fullest"), list = fullest.querySelector("ol"), state = figure.querySelector(".state");
    let shown = [], columns = 1, side = 1;
    for (const part of [canvas, cursor, fullest]) part.hidden = false;
    const draw = () => {
      const width = canvas.clientWidth || 320, n = shown.length, ratio = devicePixelRatio || 1;
      side = Math.max(3, Math.min(18, Math.floor(Math.sqrt(width * 120 / Math.max(n, 1)))));
      columns = Math.max(1, Math.floor(width / side));
      const height = Math.ceil(n / columns) * side;
      canvas.width = width * ratio;
      canvas.height = Math.max(height, 1) * ratio;
      canvas.style.height = Math.max(height, 1) + "px";
      const c = canvas.getContext("2d");
      c.scale(ratio, ratio);
      const gap = side > 5 ? 1 : 0;
      shown.forEach((level, i) => {
        if (level === absent) return;
        c.fillStyle = color(level);
        c.fillRect(i % columns * side, Math.floor(i / columns) * side, side - gap, side - gap);
      });
    };
    canvas.addEventListener("pointermove", (e) => {
      const i = Math.floor(e.offsetY / side) * columns + Math.floor(e.offsetX / side);
      const there = e.offsetX < columns * side && i >= 0 && i < shown.length;
      pointed.textContent = !there ? "" : layers.nodes[i] + (shown[i] === absent ? " is not there" : ": " + percent(shown[i]) + " %");
    });
    canvas.addEventListener("pointerleave", () => { pointed.textContent = ""; });
    return (at, kind) => {
      shown = levels(layers.levels[kind][at]);
      for (const image of figure.querySelectorAll(".film-image")) image.hidden = image.dataset.kind !== kind;
      cursor.style.left = (at + 0.5) / steps * 100 + "%";
      const there = shown.map((level, i) => [level, i]).filter(([level]) => level !== absent);
      const mean = there.reduce((sum, [level]) => sum + percent(level), 0) / Math.max(there.length, 1);
      const spread = Math.sqrt(there.reduce((sum, [level]) => sum + (percent(level) - mean) ** 2, 0) / Math.max(there.length, 1));
      state.textContent = "mean " + mean.toFixed(0) + " %, spread " + spread.toFixed(0) + " points, " + layers.waiting[at] + (layers.waiting[at] === 1 ? " pod waits" : " pods wait");
      canvas.setAttribute("aria-label", there.length + " nodes with " + layers.contender + ": " + state.textContent);
      there.sort((a, b) => b[0] - a[0] || a[1] - b[1]);
      list.replaceChildren(...there.slice(0, 20).map(([level, i]) => {
        const item = document.createElement("li");
        item.textContent = layers.nodes[i] + ", " + percent(level) + " %";
        return item;
      }));
      draw();
    };
  }

  // search shows the decisions that have all words of a query.
  function search(section) {
    const field = section.querySelector("input"), count = section.querySelector("output");
    const rows = Array.from(section.querySelectorAll("tbody tr"), (row) => [row, Array.from(row.cells, (c) => c.textContent).join("\n").toLowerCase()]);
    const show = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let found = 0;
      for (const [row, text] of rows) {
        row.hidden = !words.every((w) => text.includes(w));
        if (!row.hidden) found++;
      }
      count.textContent = found + " of " + rows.length;
    };
    field.addEventListener("input", show);
    section.querySelector(".search").hidden = false;
    show();
  }

  document.querySelectorAll(".heat").forEach(heat);
  document.querySelectorAll(".decisions").forEach(search);
})();
