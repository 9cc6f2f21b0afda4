// Sorting, filtering and paging of tables. A short table is in the page and is whole without this
// script; the rows of a long one are packed (kit/blocks.py) and drawn when its drawer is opened.
"use strict";
const tables = (() => {
  const PAGE = 25;
  const MOST_STACKED = 30;  // rows: a longer table of a narrow page is scrolled sideways
  const plain = (text) => text.toLowerCase().replace(/\u00b5/g, "u").replace(/[^a-z0-9]/g, "");
  // "1,234", "\u22121.5 %", "1.84\u00d7" -> the number that is shown; NaN for another text
  const shown = (text) => {
    const digits = text.replace(/[\s,%\u00d7]/g, "").replace("\u2212", "-");
    return digits === "" ? NaN : Number(digits);
  };

  class QueryError extends Error {}

  // "fp8 m = 4096 tflops > 700 provider=triton": every part must fit. A part without < > = is a
  // word of any column; the others compare one column by its label, its key or its unit: the value
  // before it was rounded for the page, and with = the shown number, too.
  function matcher(query, columns) {
    const parts = query.trim().replace(/\s*(<=|>=|!=|=|<|>)\s*/g, "$1").match(/(?:"[^"]*"|[^\s"])+/g) || [];
    const tests = parts.map((part) => {
      const [, name, sign, text] = part.match(/^([^<>=!]+)(<=|>=|!=|=|<|>)(.*)$/) || [];
      if (!sign) {
        const word = part.replace(/"/g, "").toLowerCase();
        return (row) => row.texts.some((cell) => cell !== null && cell.toLowerCase().includes(word));
      }
      const place = column(name, columns), value = text.replace(/"/g, "").toLowerCase();
      if (place < 0) throw new QueryError(`no column \u201c${name}\u201d`);
      const number = shown(value), numeric = columns[place].kind === "number";
      const exact = (row) => row.values?.[place] ?? shown(row.texts[place]);
      if (sign === "=" || sign === "!=") {
        const fits = numeric && !Number.isNaN(number)
          ? (row) => exact(row) === number || shown(row.texts[place]) === number
          : (row) => row.texts[place].toLowerCase().includes(value);
        return (row) => (row.texts[place] !== null && fits(row)) === (sign === "=");
      }
      if (Number.isNaN(number)) throw new QueryError(`\u201c${text}\u201d is no number`);
      const compare = { "<": (a) => a < number, ">": (a) => a > number,
                        "<=": (a) => a <= number, ">=": (a) => a >= number }[sign];
      return (row) => row.texts[place] !== null && compare(exact(row));
    });
    return (row) => tests.every((test) => test(row));
  }

  function column(name, columns) {
    const asked = plain(name);
    if (!asked) return columns.findIndex(({ label }) => label === name);
    const names = columns.map(({ label, key, unit }) => [label, key || "", unit || ""].map(plain));
    const exact = names.findIndex((own) => own.includes(asked));
    return exact >= 0 ? exact : names.findIndex((own) => own.slice(0, 2).some((one) => one.startsWith(asked)));
  }

  // How a column is typed in a filter: its label in one word, or its unit where several share that.
  function columnNames(columns) {
    const labels = columns.map(({ label }) => label);
    return columns.map(({ label, unit }) =>
      unit && labels.indexOf(label) !== labels.lastIndexOf(label) ? plain(unit) : label.replace(/\s+/g, "_"));
  }

  const CLASSES = { number: "n", code: "c", wide: "w" };
  function cell(text, { kind, signs }) {
    const made = element("td", { textContent: text === null ? MISSING : text });
    if (kind === "verdict") made.className = `v ${(signs || {})[text] || ""}`;
    else if (CLASSES[kind]) made.className = CLASSES[kind];
    return made;
  }

  function drawnTable(grid) {
    const heads = [...grid.querySelectorAll("thead th")];
    const columns = heads.map((one) => ({
      label: one.firstChild ? one.firstChild.textContent : "", kind: one.dataset.kind,
      unit: one.querySelector("small")?.textContent }));
    const rows = [...grid.querySelector("tbody").rows].map((node) => ({
      node, texts: [...node.cells].map((one) => one.textContent === MISSING ? null : one.textContent),
      numbers: [...node.cells].map((one) => one.dataset.v) }));
    return { heads, columns, rows };
  }

  async function packedTable(grid, script) {
    const { columns, texts, numbers, values } = JSON.parse(await unpacked(script.textContent));
    script.remove();
    const heads = columns.map(columnHead);
    grid.querySelector("table").append(
      element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}));
    const rows = texts[0].map((_, row) => ({
      texts: texts.map((own) => own[row]),
      numbers: columns.map((_, place) => (numbers[place] ?? values[place])?.[row]),
      values: columns.map((_, place) => values[place]?.[row]),
      get node() {
        const made = element("tr", {}, ...columns.map((own, place) => cell(this.texts[place], own)));
        Object.defineProperty(this, "node", { value: made });
        return made;
      } }));
    return { heads, columns, rows };
  }

  function enliven(grid, { heads, columns, rows }, paged) {
    const body = grid.querySelector("tbody");
    let kept = rows, page = 0, size = paged ? PAGE : rows.length;
    const count = element("output", { className: "count" });
    const back = element("button", { type: "button", textContent: "\u2190", title: "previous page" });
    const next = element("button", { type: "button", textContent: "\u2192", title: "next page" });
    back.setAttribute("aria-label", "previous page");
    next.setAttribute("aria-label", "next page");

    function show() {
      const pages = Math.max(1, Math.ceil(kept.length / size));
      page = Math.min(page, pages - 1);
      const from = page * size, visible = kept.slice(from, from + size);
      body.replaceChildren(...visible.map((row) => row.node));
      grid.querySelector(".box").classList.toggle("free", size <= 100);
      const last = from + visible.length;
      count.textContent = kept.length === 0 ? "no row fits"
        : `${(from + 1).toLocaleString("en")}\u2013${last.toLocaleString("en")} of ${kept.length.toLocaleString("en")}`;
      back.disabled = page === 0;
      next.disabled = page >= pages - 1;
    }

    function sort(index) {
      const top = heads[index], numeric = columns[index].kind === "number";
      const down = top.getAttribute("aria-sort") === (numeric ? null : "ascending")
        || (numeric && top.getAttribute("aria-sort") === "ascending");
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      top.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = ({ texts, numbers }) => {
        if (texts[index] === null) return null;
        if (!numeric) return texts[index].toLowerCase();
        const number = numbers[index] === undefined || numbers[index] === null ? shown(texts[index]) : Number(numbers[index]);
        return Number.isNaN(number) ? null : number;
      };
      const keys = new Map(rows.map((row) => [row, key(row)]));
      const order = (a, b) => {
        const x = keys.get(a), y = keys.get(b);
        if (x === null || y === null) return (x === null) - (y === null);  // missing values last
        return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
      };
      rows.sort(order);
      kept = kept.length === rows.length ? rows : [...kept].sort(order);
      page = 0;
      show();
    }

    heads.forEach((own, index) => {
      const button = element("button", { type: "button" }, ...own.childNodes);
      button.addEventListener("click", () => sort(index));
      own.replaceChildren(button);
    });
    if (!paged) {
      const labels = columns.map(({ label, unit }) => unit ? `${label}, ${unit}` : label);
      if (rows.length <= MOST_STACKED) stack(grid.querySelector("table"), labels);
      return;
    }

    const title = grid.querySelector("caption").firstChild.textContent.trim();
    const names = columnNames(columns).join(", ");
    const hint = element("p", { className: "hint", id: `${grid.id}-hint` });
    const field = element("input", { type: "search", placeholder: "filter: m = 4096 tflops > 700" });
    field.setAttribute("aria-label", `filter the rows of: ${title}`);
    field.setAttribute("aria-describedby", hint.id);
    function filter() {
      hint.textContent = `Columns: ${names}.`;
      hint.classList.remove("wrong");
      field.removeAttribute("aria-invalid");
      try {
        kept = field.value.trim() ? rows.filter(matcher(field.value, columns)) : rows;
      } catch (error) {
        if (!(error instanceof QueryError)) throw error;
        hint.textContent = `${error.message}; columns are ${names}.`;
        hint.classList.add("wrong");
        field.setAttribute("aria-invalid", "true");
        kept = rows;
      }
      page = 0;
      show();
    }
    field.addEventListener("input", filter);
    grid.setFilter = (query) => { field.value = query; filter(); };
    const sizes = element("select", {}, ...[25, 50, 100, rows.length].map((n) =>
      element("option", { value: n, textContent: n === rows.length ? `all ${n.toLocaleString("en")}` : n })));
    sizes.setAttribute("aria-label", "rows per page");
    sizes.addEventListener("change", () => { size = Number(sizes.value); page = 0; show(); });
    back.addEventListener("click", () => { page -= 1; show(); });
    next.addEventListener("click", () => { page += 1; show(); });
    grid.prepend(element("div", { className: "tools" }, field, count, back, next, sizes), hint);
    filter();
  }

  // Draws a packed table and makes one that is written out sortable, once; done when its rows stand in the page.
  const drawings = new WeakMap();
  function draw(grid) {
    const script = grid.querySelector(":scope > script");
    if (!drawings.has(grid))
      drawings.set(grid, script ? packedTable(grid, script).then((table) => enliven(grid, table, true))
        : Promise.resolve(enliven(grid, drawnTable(grid), false)));
    return drawings.get(grid);
  }

  document.querySelectorAll(".grid").forEach((grid) => {
    if (!grid.querySelector(":scope > script")) draw(grid);
  });

  // Data behind a figure: the second page carries each CSV file, packed; a click saves it.
  document.querySelectorAll("a.data").forEach((link) => {
    const held = document.querySelector(`script[data-file="${link.download}"]`);
    if (!held || !window.DecompressionStream) return;
    link.addEventListener("click", async (event) => {
      event.preventDefault();
      save(await unpackedBlob(held.textContent), link.download);
    });
  });

  return { draw };
})();
