// What roofcal/report/kit/templates.py packed, elements, numbers, files to save, and tables: shared by all scripts.
"use strict";
async function unpackedBlob(packed) {
  const bytes = Uint8Array.from(atob(packed.trim()), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).blob();
}
const unpacked = async (packed) => (await unpackedBlob(packed)).text();

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function save(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Numbers as roofcal/core/units.py and roofcal/report/kit/numbers.py write them.
const MISSING = "\u2013", SPACE = "\u00a0";
function significant(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  if (value === 0) return "0";
  const decimals = Math.min(12, Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }).replace("-", "\u2212");
}
const times = (ratio) => ratio === null ? MISSING : `${ratio.toFixed(2)}\u00d7`;
const percent = (fraction) => `${(100 * fraction).toFixed(1).replace("-", "\u2212")}${SPACE}%`;
const signedPercent = (fraction) => `${fraction > 0 ? "+" : ""}${percent(fraction)}`;

// The head of a column: its label, its unit, and what it means.
function columnHead({ label, unit, about, kind }) {
  const made = element("th", { scope: "col", title: about || "", className: kind === "number" ? "n" : "" }, label);
  made.dataset.kind = kind || "text";
  if (unit) made.append(element("small", { textContent: unit }));
  return made;
}

// On a narrow page a row becomes a block, in which each cell has the label of its column before it. A table that is laid
// out in blocks is none for screen readers, unless its parts say what they are.
function stack(table, labels) {
  const parts = { rowgroup: "thead, tbody", row: "tr", columnheader: "th", cell: "td" };
  table.classList.add("stacks");
  table.setAttribute("role", "table");
  Object.entries(parts).forEach(([role, own]) => table.querySelectorAll(own).forEach((part) => part.setAttribute("role", role)));
  [...table.tBodies[0].rows].forEach((row) => [...row.cells].forEach((cell, place) => { cell.dataset.label = labels[place]; }));
}
