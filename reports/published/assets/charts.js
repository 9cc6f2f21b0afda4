// Charts: drawn when they come into view, from the columns that the page carries. Legend, tabs, zoom
// buttons and the text beside the pointer are HTML; texts of records go into it as text alone.
"use strict";
(() => {
  const holders = window.DecompressionStream ? [...document.querySelectorAll(".chart[data-chart]")] : [];
  const NEAR = 26;  // pixels between the pointer and a point that it touches

  // --- what the page carries, unpacked once ---------------------------------------------------------
  const held = (id) => unpacked(document.getElementById(id).textContent);
  let carried;
  const carry = () => carried ??= Promise.all([held("chart-library"), held("chart-data")])
    .then(([library, data]) => {
      document.head.append(element("script", { textContent: library }));
      return JSON.parse(data);
    });

  function tableRows(columns) {
    const read = Object.entries(columns).map(([key, held]) =>
      [key, Array.isArray(held) ? (place) => held[place] : (place) => held.of[held.at[place]]]);
    const length = Math.max(0, ...Object.values(columns).map((held) => (Array.isArray(held) ? held : held.at).length));
    return Array.from({ length }, (_, place) => Object.fromEntries(read.map(([key, at]) => [key, at(place)])));
  }

  function panelRows(rows, panel, needed) {
    const fits = Object.entries(panel.where ?? {});
    return rows
      .filter((row) => fits.every(([key, value]) => !(key in row) || row[key] === value))
      .map((row) => {
        const own = { ...row };
        Object.entries(panel.fields ?? {}).forEach(([key, source]) => { own[key] = row[source]; });
        return own;
      })
      .filter((row) => needed.every((key) => !(key in row) || row[key] !== null));
  }

  // --- numbers as people read them ----------------------------------------------------------------
  const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"],
                    [1e-6, "\u00b5"], [1e-9, "n"]];
  const plain = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 });
  function scaled(value, unit) {
    const [factor, prefix] = PREFIXES.find(([size]) => Math.abs(value) >= size * 0.99995) ?? PREFIXES.at(-1);
    return `${plain(value / factor)}\u00a0${prefix}${unit}`.trim();
  }
  const FORMATS = {
    text: String,
    count: (value) => value.toLocaleString("en"),
    si: scaled,
    percent: signedPercent,
    ratio: times,
  };
  function tipLines(tips, row) {
    const there = (key) => row[key] !== undefined && row[key] !== null && row[key] !== "";
    return tips.filter((tip) => there(tip.key)).map((tip) => {
      const show = (value) => FORMATS[tip.kind](value, tip.unit ?? "");
      const ends = tip.low && there(tip.low) && there(tip.high);
      return [tip.label, show(row[tip.key]) + (ends ? ` (95 %: ${show(row[tip.low])} to ${show(row[tip.high])})` : "")];
    });
  }

  // --- the text beside the pointer ----------------------------------------------------------------
  const tip = element("div", { className: "chart-tip", role: "status", hidden: true });
  document.body.append(tip);
  const records = document.body.dataset.records ?? "";

  function showTip(lines, link, x, y) {
    const list = element("dl", {}, ...lines.flatMap(([label, text]) =>
      [element("dt", { textContent: label }), element("dd", { textContent: text })]));
    const record = link ? [element("a", { href: link, textContent: "all that was recorded" })] : [];
    tip.replaceChildren(list, ...record);
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const right = x + 16 + width > innerWidth - 8;
    tip.style.left = `${Math.max(8, right ? x - width - 16 : x + 16)}px`;
    tip.style.top = `${Math.max(8, Math.min(y + 12, innerHeight - height - 8))}px`;
  }
  const hideTip = () => { tip.hidden = true; };
  addEventListener("scroll", hideTip, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

  // --- one panel ----------------------------------------------------------------------------------
  class PanelView {
    constructor(chart, panel, page, hidden) {
      Object.assign(this, { chart, panel, page, hidden, y: panel.y ?? chart.y });
      this.plot = element("div", { className: "plot", tabIndex: 0 });
      this.plot.setAttribute("role", "application");
      this.ring = element("div", { className: "chart-ring", hidden: true });
      this.cross = element("div", { className: "chart-cross", hidden: true, textContent: "\u00d7", title: "nearest to the shape in the shape box" });
      this.node = element("div", { className: "panel" });
      if (panel.title) this.node.append(element("p", { className: "panel-title", textContent: panel.title }));
      this.node.append(this.plot);
      if (panel.width) this.plot.style.minWidth = `${panel.width}px`;
    }

    async draw(label) {
      const { chart, panel, page } = this;
      this.plot.setAttribute("aria-label",
        `${label}${panel.title ? ` ${panel.title}.` : ""} Arrow keys read the points one by one, Enter opens the record.`);
      const spec = structuredClone(panel.spec ?? chart.spec);
      spec.datasets = Object.fromEntries(Object.entries(chart.tables).map(([name, table]) => {
        const needed = name === "points" ? [chart.x, this.y] : [];
        return [name, panelRows(page.rows(table), panel, needed)];
      }));
      this.rows = spec.datasets.points.map((row) => ({ ...row }));
      const size = { width: "container", height: panel.height, autosize: { type: "fit-x", contains: "padding" } };
      const { view } = await vegaEmbed(this.plot, { ...spec, ...size }, {
        mode: "vega-lite", renderer: "svg", actions: false, ast: true, tooltip: false, defaultStyle: false,
        config: page.config, logLevel: 1,
      });
      this.view = view;
      this.plot.querySelector("svg").setAttribute("aria-hidden", "true");  // the panel has the text alternative
      this.plot.append(this.ring, this.cross);
      this.markShape();
      this.listen();
      this.hide();
    }

    // The row's line in the table of points; "" for what was not measured.
    recordLink(row) {
      const table = new URLSearchParams({ table: this.chart.records, filter: row.point_id });
      return row.point_id ? `${records}#${table}` : "";
    }

    hide() {
      Object.entries(this.hidden).forEach(([key, values]) => this.view.signal(`hidden_${key}`, [...values]));
      this.view.run();
    }

    visible(row) {
      return Object.entries(this.hidden).every(([key, values]) => !values.has(row[key]));
    }

    // Of a row: its place in the window. A band (a row or column of a map) counts from its middle.
    place(row) {
      const box = this.plot.querySelector(".root .background").getBoundingClientRect();
      const [x, y] = [["x", this.chart.x], ["y", this.y]].map(([name, key]) => {
        const scale = this.view.scale(name), offset = this.chart.offsets[name];
        const within = offset ? this.view.scale(`${name}Offset`)(row[offset]) : (scale.bandwidth?.() ?? 0) / 2;
        return scale(row[key]) + within;
      });
      return { x: box.left + x, y: box.top + y, inside: x >= -1 && y >= -1 && x <= box.width + 1 && y <= box.height + 1 };
    }

    // On the break-even map of its device, the cell within a doubling that is nearest to the shape of the shape box.
    markShape() {
      const { anchor, ...shape } = JSON.parse(document.getElementById("shape-box")?.dataset.shape ?? "{}");
      const isMap = "m" in shape && this.chart.id.startsWith(`${anchor}-figure-breakeven-`);
      const distance = (row) => Math.hypot(...["m", "n", "k"].map((axis) => Math.log2(row[axis] / shape[axis])));
      const cell = !isMap ? null : this.rows.reduce((best, row) => distance(row) < distance(best) ? row : best);
      this.cross.hidden = !cell || distance(cell) > 1;
      if (this.cross.hidden) return;
      const at = this.place(cell), box = this.plot.getBoundingClientRect();
      this.cross.style.left = `${at.x - box.left}px`;
      this.cross.style.top = `${at.y - box.top}px`;
    }

    nearest(event) {
      let best = null, least = NEAR;
      this.rows.forEach((row) => {
        if (!this.visible(row)) return;
        const at = this.place(row), far = Math.hypot(at.x - event.clientX, at.y - event.clientY);
        if (far < least && at.inside) [best, least] = [row, far];
      });
      return best;
    }

    touch(row) {
      this.ring.hidden = !row;
      if (!row) return hideTip();
      const at = this.place(row), box = this.plot.getBoundingClientRect();
      this.ring.style.left = `${at.x - box.left}px`;
      this.ring.style.top = `${at.y - box.top}px`;
      showTip(tipLines(this.chart.tips, row), this.recordLink(row), at.x, at.y);
    }

    listen() {
      const { plot } = this;
      let down = null, reading = -1;
      const open = (row) => { if (row && this.recordLink(row)) location.assign(this.recordLink(row)); };
      plot.addEventListener("pointermove", (event) => {
        if (event.pointerType === "mouse" && !event.buttons) this.touch(this.nearest(event));
      });
      plot.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") this.touch(null); });
      plot.addEventListener("pointerdown", (event) => { down = event; }, { capture: true });
      plot.addEventListener("click", (event) => {
        if (down && Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) > 4) return;
        const row = this.nearest(event);
        if (down?.pointerType === "touch") this.touch(row);  // a finger has no hover: its tap shows, the link opens
        else open(row);
      });
      plot.addEventListener("blur", () => this.touch(null));
      plot.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        const rows = this.inOrder().filter((row) => this.visible(row) && this.place(row).inside);
        if (event.key === "Enter") open(rows[reading]);
        if (!step || !rows.length) return;
        event.preventDefault();
        reading = (reading + step + rows.length) % rows.length;
        this.touch(rows[reading]);
      });
    }

    inOrder() {
      return this.ordered ??= [...this.rows].sort((a, b) => (a[this.chart.x] > b[this.chart.x]) - (a[this.chart.x] < b[this.chart.x]));
    }

    // What Ctrl and the wheel do, for people without a wheel.
    zoom(turn) {
      const ground = this.plot.querySelector(".root .background"), box = ground.getBoundingClientRect();
      const middle = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 };
      const event = turn
        ? new WheelEvent("wheel", { deltaY: turn, ctrlKey: true, bubbles: true, cancelable: true, ...middle })
        : new MouseEvent("dblclick", { bubbles: true, ...middle });
      ground.dispatchEvent(event);
    }
  }

  // --- one chart ----------------------------------------------------------------------------------
  function swatch(entry) {
    const markup = '<svg viewBox="-2 -1.5 4 3" aria-hidden="true"><path></path></svg>';
    const drawing = element("template", { innerHTML: markup }).content.firstChild, path = drawing.firstChild;
    path.setAttribute("d", entry.path ?? "M-2,0H2");
    path.style[entry.path && !entry.is_open ? "fill" : "stroke"] = entry.colour;
    if (entry.is_open) path.style.strokeWidth = 0.3;
    if (!entry.path) {
      path.style.strokeWidth = entry.dash ? 0.3 : 0.7;
      if (entry.dash) path.style.strokeDasharray = entry.dash.map((length) => length / 6).join(" ");
    }
    return drawing;
  }

  const pressed = (button, state) => button.setAttribute("aria-pressed", String(state));
  const group = (name, label, ...children) => {
    const made = element("div", { className: name }, ...children);
    made.setAttribute("role", "group");
    made.setAttribute("aria-label", label);
    return made;
  };

  // given: what the page carries; a page of the site gives rows that somebody chose
  async function draw(holder, given = carry()) {
    const page = await given;
    page.rows ??= (table) => (page.read ??= {})[table] ??= tableRows(page.tables[table]);
    const chart = Object.assign(page.charts[holder.dataset.chart], { id: holder.dataset.chart });
    const hidden = {};
    chart.legend.filter((entry) => entry.field).forEach((entry) => { hidden[entry.field] = new Set(); });
    const box = element("div", { className: "panels" });
    box.style.setProperty("--columns", chart.columns);
    let views = [];
    const choices = [...new Set(chart.panels.map((panel) => panel.choice).filter(Boolean))];

    async function show(choice) {
      views.forEach((one) => one.view?.finalize());
      views = chart.panels.filter((panel) => !panel.choice || panel.choice === choice)
        .map((panel) => new PanelView(chart, panel, page, hidden));
      box.classList.toggle("single", views.length === 1);
      box.replaceChildren(...views.map((one) => one.node));
      await Promise.all(views.map((one) => one.draw(holder.getAttribute("aria-label"))));
    }

    const tools = element("div", { className: "chart-tools" });
    if (choices.length > 1) {
      const buttons = choices.map((choice, place) => {
        const button = element("button", { type: "button", textContent: choice });
        pressed(button, place === 0);
        button.addEventListener("click", () => {
          buttons.forEach((other) => pressed(other, other === button));
          show(choice);
        });
        return button;
      });
      tools.append(group("choices", "What is drawn", ...buttons));
    }
    if (chart.legend.length > 1) {
      tools.append(group("legend", "Legend: each button hides and shows a series", ...chart.legend.map((entry) => {
        const words = [swatch(entry), entry.label ?? entry.value];
        if (!entry.field) return element("span", {}, ...words);  // it explains a colour, and hides nothing
        const button = element("button", { type: "button", title: "hide or show" }, ...words);
        pressed(button, true);
        button.addEventListener("click", () => {
          const values = hidden[entry.field], show = values.has(entry.value);
          if (show) values.delete(entry.value); else values.add(entry.value);
          pressed(button, show);
          views.forEach((one) => one.hide());
        });
        return button;
      })));
    }
    if (chart.zooms) {
      const buttons = [["+", "zoom in", -250], ["\u2212", "zoom out", 250], ["\u21ba", "whole chart", 0]].map(([sign, label, turn]) => {
        const button = element("button", { type: "button", textContent: sign, title: `${label} (Ctrl or Alt + wheel, drag, double click)` });
        button.setAttribute("aria-label", label);
        button.addEventListener("click", () => views.forEach((one) => one.zoom(turn)));
        return button;
      });
      tools.append(group("zoom", "Zoom", ...buttons));
    }
    holder.replaceChildren(tools, box);
    await show(choices[0] ?? "");
    document.addEventListener("shape", () => views.forEach((one) => one.markShape()));
    addEventListener("resize", () => requestAnimationFrame(() => views.forEach((one) => one.markShape())));
    holder.dataset.drawn = "yes";
  }

  const begun = new Set();
  function begin(holder) {
    if (begun.has(holder)) return;
    begun.add(holder);
    watcher.unobserve(holder);
    draw(holder).catch((problem) => {
      holder.textContent = "This chart could not be drawn; its table has the numbers.";
      console.error(problem);
    });
  }
  const watcher = new IntersectionObserver((entries) => {
    entries.filter((entry) => entry.isIntersecting).forEach((entry) => begin(entry.target));
  }, { rootMargin: "400px 0px" });
  holders.forEach((holder) => watcher.observe(holder));
  // With everything unpacked before, what is begun when a print begins is drawn before it is laid out.
  if (holders.length) addEventListener("load", () => (window.requestIdleCallback ?? setTimeout)(carry));
  addEventListener("beforeprint", () => holders.filter((holder) => holder.checkVisibility()).forEach(begin));
  window.charts = { draw };
})();
