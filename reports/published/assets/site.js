// What all pages of the site share: data on demand, numbers as people read them, tables, choices.
// Elements, packed texts and numbers are those of unpack.js; tables.js sorts.
"use strict";
const roofcal = (() => {
  const root = document.documentElement.dataset.root;
  const held = new Map(), awaited = new Map();

  // Data is a script that calls hold: a page opened from file:// may load no other kind of file.
  const hold = (name, value) => held.set(name, value);
  function load(name) {
    if (!awaited.has(name)) awaited.set(name, new Promise((done, failed) => {
      const path = name.split("/").map(encodeURIComponent).join("/");
      const script = element("script", { src: `${root}assets/data/${path}.js` });
      script.onload = () => done(held.get(name));
      script.onerror = () => failed(new Error(`${name} is not there: write the site again`));
      document.head.append(script);
    }));
    return awaited.get(name);
  }

  // --- numbers with a prefix, as roofcal/core/units.py writes them ---

  const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "\u00b5"], [1e-9, "n"]];
  const LARGEST = { "flop/s": 1e12, "B/s": 1e12, s: 1, W: 1, B: 1e9 };
  function scaled(value, unit, digits = 3) {
    if (value === null || value === undefined) return MISSING;
    const fits = ([factor]) => factor <= (LARGEST[unit] ?? Infinity) && value >= 0.9995 * factor;
    const [factor, prefix] = PREFIXES.find(fits) || [1, ""];
    return `${significant(value / factor, digits)}${SPACE}${prefix}${unit === "flop/s" ? "FLOP/s" : unit}`;
  }
  function median(values) {
    const sorted = [...values].sort((a, b) => a - b), half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }

  // --- tables ---

  // columns: { label, unit, about, kind, value(row), show(value, row), href(row) }
  function grid(id, caption, columns, rows, isBest = () => false) {
    const filled = columns.filter(({ value }) => rows.some((row) => value(row) !== null && value(row) !== undefined));
    const heads = filled.map(columnHead);
    const lines = rows.map((row) => element("tr", { className: isBest(row) ? "best" : "" },
      ...filled.map((column) => cell(column, row))));
    const box = element("div", { className: "box", tabIndex: 0 }, element("table", {},
      element("caption", { textContent: caption }),
      element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...lines)));
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", caption);
    const made = element("div", { className: "grid", id }, box);
    tables.draw(made);
    return made;
  }
  function cell({ value, show, href, kind }, row) {
    const content = value(row), missing = content === null || content === undefined;
    const text = missing ? MISSING : show ? show(content, row) : String(content);
    const address = !missing && href ? href(row) : null;
    const made = element("td", {}, address ? element("a", { href: root + address, textContent: text }) : text);
    if (kind === "number") {
      made.className = "n";
      if (!missing) made.dataset.v = content;
    } else if (kind === "wide") made.className = "w";
    return made;
  }
  // --- charts ---

  let carried;
  const library = () => carried ??= Promise.all([load("vega"), load("charts")])
    .then((packed) => Promise.all(packed.map(unpacked)))
    .then(([script, page]) => {
      document.head.append(element("script", { textContent: script }));
      return JSON.parse(page);
    });
  // Rows as the columns that charts.js reads: { column: [value of each row] }
  const columnsOf = (rows) => Object.fromEntries(Object.keys(rows[0] || {}).map((key) => [key, rows.map((row) => row[key])]));
  // tables: name in the specification -> rows; legend: entries as roofcal/report/kit/charts.py has them
  async function chart(place, name, label, tables, legend) {
    const { config, charts: own } = await library();
    const holder = element("div", { className: "chart" });
    Object.assign(holder.dataset, { chart: name });
    holder.setAttribute("aria-label", label);
    holder.setAttribute("role", "group");
    place.replaceChildren(holder);
    const names = Object.fromEntries(Object.keys(tables).map((table) => [table, table]));
    await charts.draw(holder, { config, charts: { [name]: { ...own[name], tables: names, legend } },
      tables: Object.fromEntries(Object.entries(tables).map(([table, rows]) => [table, columnsOf(rows)])) });
  }

  // --- choices, which the address of the page keeps ---

  const asked = () => new URLSearchParams(location.hash.slice(1));
  function keep(choices) {
    const hash = `#${new URLSearchParams(choices)}`;
    if (hash !== location.hash) history.replaceState(null, "", hash);
  }
  // entries: [value, text] or [value, text, group]; returns the value that is chosen
  function offer(select, entries, wanted) {
    const groups = new Map();
    for (const [value, text, group = ""] of entries) {
      const option = element("option", { value, textContent: text });
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(option);
    }
    select.replaceChildren(...[...groups].flatMap(([label, options]) =>
      label ? [element("optgroup", { label }, ...options)] : options));
    if (entries.some(([value]) => String(value) === String(wanted))) select.value = wanted;
    return select.value;
  }

  const sideName = (side) => `${side.title}, ${side.environment}`;
  return { hold, load, scaled, median, grid, chart, asked, keep, offer, sideName };
})();
