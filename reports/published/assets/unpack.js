// What roofcal/report/kit/templates.py packed, elements, and tables of a narrow page: shared by all scripts.
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

// On a narrow page a row becomes a block, in which each cell has the label of its column before it. A table that is laid
// out in blocks is none for screen readers, unless its parts say what they are.
function stack(table, labels) {
  const parts = { rowgroup: "thead, tbody", row: "tr", columnheader: "th", cell: "td" };
  table.classList.add("stacks");
  table.setAttribute("role", "table");
  Object.entries(parts).forEach(([role, own]) => table.querySelectorAll(own).forEach((part) => part.setAttribute("role", role)));
  [...table.tBodies[0].rows].forEach((row) => [...row.cells].forEach((cell, place) => { cell.dataset.label = labels[place]; }));
}
