// Sorting, filtering and paging of tables. Without it every table is whole, in a box that scrolls.
"use strict";
(() => {
  const PAGE = 25;
  const text = (cell) => cell.textContent;
  const shown = (cell) => Number(text(cell).replace(/[\s,%\u00d7]/g, "").replace("\u2212", "-"));
  const sorting = (cell, numeric) =>
    numeric ? (cell.dataset.v === undefined ? null : Number(cell.dataset.v)) : text(cell).toLowerCase();

  // "fp8 m>=4096 status=ok": every word must fit; a word with < > = compares one column as shown.
  function matcher(query, names) {
    const tests = query.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
      const parts = word.match(/^([^<>=]+)(<=|>=|=|<|>)(.+)$/);
      const column = parts ? names.findIndex((name) => name.startsWith(parts[1])) : -1;
      if (column < 0) return (row) => row.dataset.all.includes(word);
      const [, , sign, wanted] = parts;
      if (sign === "=" && Number.isNaN(Number(wanted)))
        return (row) => text(row.cells[column]).toLowerCase().includes(wanted);
      const right = Number(wanted);
      const compare = { "<": (a) => a < right, ">": (a) => a > right, "=": (a) => a === right,
                        "<=": (a) => a <= right, ">=": (a) => a >= right }[sign];
      return (row) => compare(shown(row.cells[column]));
    });
    return (row) => tests.every((test) => test(row));
  }

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  function enliven(grid) {
    const body = grid.querySelector("tbody"), heads = [...grid.querySelectorAll("thead th")];
    const rows = [...body.rows], paged = grid.classList.contains("paged");
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
      body.replaceChildren(...visible);
      grid.querySelector(".box").classList.toggle("free", size <= 100);
      const last = from + visible.length;
      count.textContent = kept.length === 0 ? "no row fits"
        : `${(from + 1).toLocaleString("en")}\u2013${last.toLocaleString("en")} of ${kept.length.toLocaleString("en")}`;
      back.disabled = page === 0;
      next.disabled = page >= pages - 1;
    }

    function sort(index) {
      const head = heads[index], numeric = head.dataset.kind === "number";
      const down = head.getAttribute("aria-sort") === (numeric ? null : "ascending")
        || (numeric && head.getAttribute("aria-sort") === "ascending");
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = (a, b) => {
        const x = sorting(a.cells[index], numeric), y = sorting(b.cells[index], numeric);
        if (x === null || y === null) return (x === null) - (y === null);  // missing values last
        return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
      };
      rows.sort(order);
      kept = kept.length === rows.length ? rows : [...kept].sort(order);
      page = 0;
      show();
    }

    heads.forEach((head, index) => {
      const button = element("button", { type: "button" }, ...head.childNodes);
      button.addEventListener("click", () => sort(index));
      head.replaceChildren(button);
    });
    if (!paged) return;

    const names = heads.map((head) => text(head).toLowerCase());
    rows.forEach((row) => { row.dataset.all = text(row).toLowerCase(); });
    const title = text(grid.querySelector("caption"));
    const field = element("input", { type: "search", placeholder: "filter: fp8 m>=4096 status=ok" });
    field.setAttribute("aria-label", `filter the rows of: ${title}`);
    field.addEventListener("input", () => {
      kept = field.value.trim() ? rows.filter(matcher(field.value, names)) : rows;
      page = 0;
      show();
    });
    const sizes = element("select", {}, ...[25, 50, 100, rows.length].map((n) =>
      element("option", { value: n, textContent: n === rows.length ? `all ${n.toLocaleString("en")}` : n })));
    sizes.setAttribute("aria-label", "rows per page");
    sizes.addEventListener("change", () => { size = Number(sizes.value); page = 0; show(); });
    back.addEventListener("click", () => { page -= 1; show(); });
    next.addEventListener("click", () => { page += 1; show(); });
    grid.prepend(element("div", { className: "tools" }, field, count, back, next, sizes));
    show();
  }

  document.querySelectorAll(".grid").forEach(enliven);

  // Data behind a figure: the page carries each CSV file, packed; a click saves it.
  async function save(name, packed) {
    const bytes = Uint8Array.from(atob(packed), (sign) => sign.charCodeAt(0));
    const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const file = await new Response(unpacked).blob();
    const link = element("a", { href: URL.createObjectURL(file), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  document.querySelectorAll("a.data").forEach((link) => {
    const held = document.querySelector(`script[data-file="${link.download}"]`);
    if (!held || !window.DecompressionStream) return;
    link.addEventListener("click", (event) => {
      event.preventDefault();
      save(link.download, held.textContent);
    });
  });

  // Contents: closed on a narrow screen until asked for; the section in view is marked.
  const contents = document.getElementById("contents");
  const narrow = matchMedia("(max-width: 1079px)");
  const fold = () => { contents.open = !narrow.matches; };
  fold();
  narrow.addEventListener("change", fold);
  const links = new Map([...contents.querySelectorAll("a")].map((a) => [a.hash.slice(1), a]));
  contents.addEventListener("click", (event) => {
    if (narrow.matches && event.target.closest("a")) contents.open = false;
  });
  const seen = new IntersectionObserver((entries) => {
    entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    });
  }, { rootMargin: "-10% 0px -80% 0px" });
  links.forEach((_, id) => { const part = document.getElementById(id); if (part) seen.observe(part); });
})();
