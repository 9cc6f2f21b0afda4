// The shape box: what product_model.js says of m, n and k, and a link that reopens it.
"use strict";
const shapeBox = document.getElementById("shape-box");
if (shapeBox) (async () => {
  const form = shapeBox.querySelector("form"), fields = form.elements;
  const said = shapeBox.querySelector(".said"), box = shapeBox.querySelector(".box");
  const devices = JSON.parse(await unpacked(shapeBox.querySelector("script").textContent));
  const byName = new Map(devices.map((device) => [device.anchor, device]));
  devices.forEach(({ anchor, name }) => fields.device.append(element("option", { value: anchor, textContent: name })));
  form.querySelector(".of-device").hidden = devices.length < 2;
  [...new Set(devices.flatMap(({ options }) => options.map(({ op }) => op)))].forEach((op) =>
    fields.op.append(element("option", { value: op, textContent: op })));

  const UNITS = [[1, "s"], [1e-3, "ms"], [1e-6, "\u00b5s"], [1e-9, "ns"]];
  const time = (seconds) => {
    const [factor, unit] = UNITS.find(([size]) => Number(seconds.toPrecision(3)) >= size) ?? UNITS.at(-1);
    return `${significant(Number((seconds / factor).toPrecision(3)))}${SPACE}${unit}`;
  };
  const sizes = ({ m, n, k }) => [m, n, k].map((size) => size.toLocaleString("en")).join(" \u00d7 ");

  // The shape that is typed; a message for one that is no shape.
  function typedShape(largest) {
    const shape = {};
    for (const axis of ["m", "n", "k"]) {
      const text = fields[axis].value.replace(/[,_\s]/g, ""), size = Number(text);
      const isSize = /^\d+$/.test(text) && size >= 1 && size <= largest;
      fields[axis].setAttribute("aria-invalid", String(!isSize));
      if (!isSize) return `${axis} = \u201c${fields[axis].value}\u201d is not a whole number from 1 to 2^30`;
      shape[axis] = size;
    }
    return shape;
  }

  // [what a cell is, whether it is a number]
  const HEADS = [["rank", false], ["recipe", false], ["products by", false], ["casts by", false], ["time", true],
    ["95 %", true], ["over bf16", true], ["rate", true], ["nearest measured", false]];

  function row(answer, place, device, shape, baseline) {
    const { option, casts, parts, flops, total, low, high, predicted, isMeasured, boundBy, doublings, unprobed } = answer;
    const rate = flops / total / 1e12;
    const texts = [`${place + 1}`, option.recipe, option.provider, casts.map(({ provider }) => provider).join(", ") || "none", time(total),
      `${time(low)} to ${time(high)}`, baseline ? times(baseline.total / total) : MISSING, `${significant(rate)}${SPACE}TFLOP/s`, ""];
    const cells = texts.map((text, number) => element("td", { textContent: text, className: HEADS[number][1] ? "n" : "" }));
    const note = (cell, textContent) => cell.append(element("small", { textContent }));
    if (casts.length) note(cells[4], parts.map((part) => time(part.total)).join(" + "));
    if (isMeasured) note(cells[4], `measured, predicted ${time(predicted)}`);
    else if (parts.some((part) => part.isMeasured)) note(cells[4], `${parts[0].isMeasured ? "product" : "cast"} measured`);
    if (doublings) {
      const far = doublings > device.far_doublings ? ": treat as a guess" : "";
      note(cells[5], `extrapolated by ${doublings.toFixed(1)} doublings${far}`);
    }
    if (unprobed) note(cells[5], `no probe has ${unprobed}`);
    note(cells[7], `bound by ${boundBy}`);
    const [near] = productModel.nearest(device, option, shape, 1);
    const off = !near ? "" : near.predicted === null ? " (a probe of the fit)"
      : ` (predicted ${signedPercent(near.predicted / near.seconds - 1)})`;
    cells[8].className = "w";
    cells[8].textContent = !near ? "none" : parts[0].isMeasured ? `this product${off}`
      : `product ${sizes(near.point)} in ${time(near.seconds)}, ${near.distance.toFixed(1)} doublings away${off}`;
    return element("tr", {}, ...cells);
  }

  function show() {
    const device = byName.get(fields.device.value) ?? devices[0];
    const shape = typedShape(device.largest_size);
    box.replaceChildren();
    shapeBox.dataset.shape = JSON.stringify(typeof shape === "string" ? {} : { anchor: device.anchor, ...shape });
    document.dispatchEvent(new Event("shape"));  // charts.js marks it on the break-even map
    if (typeof shape === "string") { said.textContent = shape; return; }
    const op = fields.op.value, hasCasts = fields.casts.checked;
    const query = new URLSearchParams({
      ...shape, ...(op && { op }), ...(!hasCasts && { casts: "0" }), ...(devices.length > 1 && { device: device.anchor }) });
    form.querySelector(".link").href = `#${query}`;
    // Options of other ops must not decide how far beyond its probes an option of this op may lie.
    const options = device.options.filter((option) => !op || option.op === op);
    const { ranked: own, refused } = productModel.rank(device, shape, hasCasts, options);
    const baseline = productModel.rank(device, shape, hasCasts).ranked.find(({ option }) => option.recipe === device.baseline);
    const recipes = new Set();
    const shown = own.filter(({ option }) => fields.all.checked || !recipes.has(option.recipe) && recipes.add(option.recipe));
    const reasons = [...new Set(refused.map(({ option, reason }) =>
      reason === device.without_casts ? `${option.recipe}: ${reason}` : reason))];
    said.replaceChildren(remark, ...(own.length ? sentence(own, baseline, hasCasts, device.decision) : ["No provider runs this shape."]));
    if (own.length) {
      const heads = HEADS.map(([text, isNumber]) => element("th", { scope: "col", textContent: text, className: isNumber ? "n" : "" }));
      heads[0].setAttribute("aria-label", "rank");
      heads[0].textContent = "";
      const counted = hasCasts ? "times and speed-ups with the cast of x" : "products alone, casts not counted";
      const table = element("table", {},
        element("caption", { textContent: `${sizes(shape)} on ${device.name}: ${counted}` }),
        element("thead", {}, element("tr", {}, ...heads)),
        element("tbody", {}, ...shown.map((answer, place) => row(answer, place, device, shape, baseline))));
      stack(table, HEADS.map(([label]) => label));
      box.append(table);
    }
    if (reasons.length) {
      const title = `Not ranked: ${reasons.length} reason${reasons.length > 1 ? "s" : ""}`;
      box.append(element("details", {}, element("summary", { textContent: title }),
        element("ul", {}, ...reasons.map((reason) => element("li", { textContent: reason })))));
    }
  }

  // roofcal.ask.advice: what cannot be told from the fastest recipe, and how much longer it takes, in its words
  function certainty([first, ...others], { most_apart: mostApart, near, toss_up: one, toss_ups: several, next }) {
    const recipes = new Set([first.option.recipe]);
    const rivals = others.filter(({ option }) => !recipes.has(option.recipe) && recipes.add(option.recipe));
    const isTossUp = ({ total, low }, place) => total <= first.total * (1 + mostApart)
      && (total <= first.total + near * (first.high - first.total) || place === 0 && (total <= first.high || low <= first.total));
    const tossUps = rivals.filter(isTossUp), names = tossUps.map(({ option }) => option.recipe), last = names.pop();
    const slower = (tossUps.length ? tossUps : rivals.slice(0, 1)).at(-1);
    if (!slower) return "";
    const words = names.length ? several : last ? one : next;
    return words.replace("{names}", names.length ? `${names.join(", ")} and ${last}` : last).replace("{name}", slower.option.recipe)
      .replace("{percent}", Math.max(1, Math.round(100 * (slower.total / first.total - 1))));
  }

  function sentence([first, ...others], baseline, hasCasts, words) {
    const { option, casts, total, low, high, isMeasured, doublings, unprobed } = first;
    const counted = hasCasts ? "casts included" : "casts not counted";
    const over = baseline && option.recipe !== baseline.option.recipe
      ? `${times(baseline.total / total)} ${baseline.option.recipe}, ${counted}` : counted;
    const rest = certainty([first, ...others], words);
    const by = [option.provider, ...casts.map(({ provider }) => `casts by ${provider}`)].join(", ");
    return [element("b", { textContent: `${option.recipe} by ${by}` }),
      `: ${time(total)}${isMeasured ? ", measured" : ""} (95 %: ${time(low)} to ${time(high)}), ${over}${doublings ? ", extrapolated" : ""}`
      + `${unprobed ? `, of a kind that no probe has (${unprobed})` : ""}${rest && `; ${rest}`}.`];
  }

  ["m", "n", "k"].forEach((axis) => { fields[axis].value = devices[0].first_shape[axis]; });
  let remark = "";  // what a link asked for and the page has not

  // "#m=4096&n=4096&k=4096" fills the box; other fragments are none of its business.
  function reopen() {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (!["m", "n", "k"].every((axis) => asked.has(axis))) return false;
    ["m", "n", "k", "op", "device"].forEach((name) => { if (asked.has(name)) fields[name].value = asked.get(name); });
    fields.casts.checked = asked.get("casts") !== "0";
    const unknown = (name) => asked.has(name) && fields[name].selectedIndex < 0 ? `no ${name} \u201c${asked.get(name)}\u201d here` : "";
    const missing = [unknown("device"), unknown("op")].filter(Boolean);
    if (fields.op.selectedIndex < 0) fields.op.value = "";
    if (fields.device.selectedIndex < 0) fields.device.value = devices[0].anchor;
    remark = missing.length ? `The link asks for what this page has not: ${missing.join(", ")}; this is for `
      + `${byName.get(fields.device.value).name}. ` : "";
    return true;
  }
  form.addEventListener("input", () => {
    remark = "";
    show();
    const link = form.querySelector(".link").getAttribute("href");
    if (fields.m.getAttribute("aria-invalid") === "false") history.replaceState(null, "", link);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", () => { if (reopen()) { show(); shapeBox.scrollIntoView(); } });
  const isAsked = reopen();
  show();
  if (isAsked) shapeBox.scrollIntoView();
})();
