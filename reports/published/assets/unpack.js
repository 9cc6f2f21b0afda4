// What roofcal/report/kit/templates.py packed, and elements: shared by all scripts of a page.
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
