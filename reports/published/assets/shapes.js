// One shape on all devices: measured by every recipe and provider, and what models predict.
"use strict";
(async () => {
  const { load, grid, asked, keep, offer } = roofcal;
  const index = await load("index");
  const measured = Object.entries(index.sides).filter(([key]) => key.startsWith("measured:"));
  const [modelled, ...points] = await Promise.all(
    [load("modelled"), ...measured.map(([key]) => load(key.replace("measured:", "points/")))]);
  const boxes = await Promise.all(measured.map(async ([key, side]) =>
    ({ side, device: JSON.parse(await unpacked(await load(key.replace("measured:", "shape_box/")))) })));
  const form = document.getElementById("shape"), axes = document.getElementById("axes");
  const { op: opField, shape: shapeField } = form.elements;
  if (!measured.length) {
    form.hidden = true;
    const chosen = document.getElementById("chosen"), { leftOut } = document.getElementById("shape").dataset;
    chosen.textContent = leftOut ? `There is no shape to look up, because no publication holds: ${leftOut}. `
      : "Nothing is published yet, so there is no shape to look up.";
    if (leftOut) chosen.append(element("a", { href: "index.html#left-out", textContent: "What is wrong with them" }));
    return;
  }

  // op -> title, axes, and the measured rows of all publications as objects
  const ops = new Map();
  measured.forEach(([key, side], place) => {
    for (const [name, op] of Object.entries(points[place])) {
      if (!ops.has(name)) ops.set(name, { ...op, measured: [] });
      const at = Object.fromEntries(op.columns.map((column, number) => [column, number]));
      for (const row of op.rows) ops.get(name).measured.push({
        side, key, sizes: row.slice(0, op.axes.length), world: row[at.world_size],
        recipe: op.recipes[row[at.recipe]], provider: op.providers[row[at.provider]],
        time: row[at.time_us], low: row[at.low_us], high: row[at.high_us],
        predicted: row[at.predicted_us], flops: row[at.flops], bytes: row[at.bytes],
        clock: row[at.clock_mhz], reason: row[at.reason] });
    }
  });

  const shapeKey = (sizes) => sizes.join("x");
  const shapeText = (sizes) => sizes.map((size) => size.toLocaleString("en")).join(" \u00d7 ");
  const product = (sizes) => sizes.reduce((whole, size) => whole * size, 1);
  function shapesOf(op) {
    const shapes = new Map(ops.get(op).measured.map(({ sizes }) => [shapeKey(sizes), sizes]));
    return [...shapes].sort(([, a], [, b]) => product(a) - product(b) || (shapeKey(a) < shapeKey(b) ? -1 : 1));
  }

  function typedFields(op) {
    const fields = ops.get(op).axes.map((axis) => element("input", { type: "number", name: `axis-${axis}`, min: 1, step: 1 }));
    fields.forEach((field) => field.addEventListener("input", () => lookUp()));
    axes.replaceChildren(...fields.map((field, place) => element("label", {}, ops.get(op).axes[place], field)));
  }
  const fieldsOf = (op) => ops.get(op).axes.map((axis) => form.elements[`axis-${axis}`]);
  const fill = (op, sizes) => fieldsOf(op).forEach((field, place) => { field.value = sizes[place]; });

  // The times of the shape in the fields, which stay as they are typed: where nobody published it, those
  // of the published shape that is nearest by the logarithms of its sizes.
  function lookUp(remark = "") {
    const op = opField.value, { axes: names } = ops.get(op), fields = fieldsOf(op);
    const sizes = fields.map(({ value }) => Number(value));
    const isSize = (size) => Number.isSafeInteger(size) && size >= 1;
    fields.forEach((field, place) => field.setAttribute("aria-invalid", String(!isSize(sizes[place]))));
    if (!sizes.every(isSize)) {
      const bad = names.filter((_, place) => !isSize(sizes[place])).join(", ");
      document.getElementById("chosen").textContent = `${remark}A shape has a whole number from 1 on for every size: type ${bad}.`;
      ["calibrated-times", "measured-times", "modelled-times"].forEach((id) => document.getElementById(id).replaceChildren());
      return;
    }
    const distance = ([, own]) => own.reduce((sum, size, place) => sum + Math.log(size / sizes[place]) ** 2, 0);
    const nearest = shapesOf(op).reduce((best, one) => distance(one) < distance(best) ? one : best);
    shapeField.value = nearest[0];
    keep({ op, ...Object.fromEntries(names.map((axis, place) => [axis, sizes[place]])) });
    drawCalibrated(op, Object.fromEntries(names.map((axis, place) => [axis, sizes[place]])));
    draw(distance(nearest) === 0 ? remark : `${remark}Nobody published ${shapeText(sizes)}: the nearest listed shape is `
      + `${shapeText(nearest[1])}, and what was measured is of that one. `);
  }

  // What the calibrated model of each publication says of the very shape: the fastest provider of each recipe.
  function drawCalibrated(op, shape) {
    const rows = boxes.flatMap(({ side, device }) => {
      const options = device?.options.filter((option) => option.op === op) ?? [];
      if (!options.length) return [];
      const [alone, whole] = [false, true].map((hasCasts) => {
        const baseline = productModel.rank(device, shape, hasCasts).ranked.find(({ option }) => option.recipe === device.baseline);
        const best = new Map();
        productModel.rank(device, shape, hasCasts, options).ranked.forEach((answer) => {
          if (!best.has(answer.option.recipe)) best.set(answer.option.recipe, { ...answer, gain: baseline ? baseline.total / answer.total : null });
        });
        return best;
      });
      return [...alone].map(([recipe, answer], place) => ({ side, recipe, answer, whole: whole.get(recipe), isBest: place === 0,
        rate: answer.flops / answer.total / 1e12 }));
    });
    rows.sort((a, b) => a.answer.total - b.answer.total);
    const micro = (seconds) => significant(seconds * 1e6, 4);
    const place = document.getElementById("calibrated-times");
    if (!rows.length) return place.replaceChildren();
    place.replaceChildren(grid("calibrated", `${shapeText(Object.values(shape))} by the calibrated model of each measured device`, [
      { label: "device", value: ({ side }) => side.title, href: ({ side }) => side.page },
      { label: "environment", value: ({ side }) => side.environment },
      { label: "recipe", value: ({ recipe }) => recipe },
      { label: "provider", value: ({ answer }) => answer.option.provider },
      { label: "product", unit: "\u00b5s", kind: "number", value: ({ answer }) => answer.total, show: micro },
      { label: "95 % interval", unit: "\u00b5s", value: ({ answer }) => `${micro(answer.low)} to ${micro(answer.high)}` },
      { label: "rate", unit: "TFLOP/s", kind: "number", value: ({ rate }) => rate, show: (rate) => significant(rate) },
      { label: "over bf16", unit: "casts not counted", kind: "number", value: ({ answer }) => answer.gain, show: times },
      { label: "with the cast of x", unit: "\u00b5s", kind: "number", value: ({ whole: own }) => own?.total, show: micro },
      { label: "over bf16", unit: "casts included", kind: "number", value: ({ whole: own }) => own?.gain, show: times },
      { label: "from", value: ({ answer }) => answer.isMeasured ? "measured" : answer.doublings
        ? `extrapolated by ${answer.doublings.toFixed(1)} doublings` : "model" },
    ], rows, ({ isBest }) => isBest));
  }

  function draw(remark) {
    const op = opField.value, own = ops.get(op), sizes = shapeField.value.split("x").map(Number);
    const rows = own.measured.filter((row) => shapeKey(row.sizes) === shapeField.value);
    const timed = rows.filter(({ time }) => time !== null);
    const baseline = (row) => timed.filter((other) =>
      other.key === row.key && other.world === row.world && other.recipe === own.baseline)
      .reduce((least, { time }) => Math.min(least, time), Infinity);
    const isProduct = boxes.some(({ device }) => device?.options.some((option) => option.op === op));
    const best = new Map();
    for (const row of timed) {
      const group = `${row.key}|${row.world}`;
      if (!best.has(group) || row.time < best.get(group).time) best.set(group, row);
    }
    const text = own.axes.map((axis, place) => `${axis} = ${sizes[place].toLocaleString("en")}`).join(", ");
    document.getElementById("chosen").textContent =
      `${remark}${own.title}, ${text}: ${timed.length} measured time${timed.length === 1 ? "" : "s"}, on ${new Set(timed.map(({ key }) => key)).size} of ${measured.length} publications. The fastest of each device is bold.`;
    rows.sort((a, b) => (a.time ?? Infinity) - (b.time ?? Infinity));
    document.getElementById("measured-times").replaceChildren(grid("measured", "Measured", [
      { label: "device", value: ({ side }) => side.title, href: ({ side }) => side.page },
      { label: "environment", value: ({ side }) => side.environment },
      { label: "GPUs", kind: "number", value: ({ world }) => rows.some((row) => row.world > 1) ? world : null },
      { label: "recipe", value: ({ recipe }) => recipe },
      { label: "provider", value: ({ provider }) => provider },
      { label: "time", unit: "\u00b5s", kind: "number", value: ({ time }) => time, show: (time) => significant(time, 4) },
      { label: "95 % interval", unit: "\u00b5s", value: ({ low, high }) => low === null ? null : `${significant(low, 4)} to ${significant(high, 4)}` },
      { label: "rate", unit: "TFLOP/s", kind: "number", value: ({ time, flops }) => time && flops ? flops / time / 1e6 : null, show: (rate) => significant(rate) },
      { label: "memory", unit: "TB/s", kind: "number", about: "least bytes / time", value: ({ time, bytes }) => time && bytes ? bytes / time / 1e6 : null, show: (rate) => significant(rate) },
      { label: `over ${own.baseline}`, unit: isProduct ? "casts not counted" : undefined, kind: "number", about: "time of the fastest baseline of the same publication over this time",
        value: (row) => row.time && Number.isFinite(baseline(row)) ? baseline(row) / row.time : null, show: times },
      { label: "predicted off by", kind: "number", about: "time of the calibrated model / measured - 1",
        value: ({ time, predicted }) => time && predicted ? predicted / time - 1 : null, show: (error) => percent(error) },
      { label: "SM clock", unit: "MHz", kind: "number", value: ({ clock }) => clock, show: (clock) => significant(clock, 4) },
      { label: "no time, because", kind: "wide", value: ({ reason }) => reason },
      { label: "records", value: () => "report", href: ({ side }) => side.report },
    ], rows, (row) => best.get(`${row.key}|${row.world}`) === row));
    drawModelled(op, own);
  }

  function drawModelled(op, own) {
    const place = document.getElementById("modelled-times"), table = modelled[op];
    const width = own.axes.length, here = own.measured.filter(({ sizes }) => shapeKey(sizes) === shapeField.value);
    const work = new Map(here.map(({ recipe, flops }) => [recipe, flops]));
    const fastest = (device, recipe) => here.filter((row) => row.time && row.side.device === device && row.recipe === recipe)
      .reduce((least, { time }) => least === null ? time : Math.min(least, time), null);
    // one line per device and pair of times: recipes of one rate share a line
    const lines = new Map();
    table?.rows.forEach((row, number) => {
      if (shapeKey(row.slice(0, width)) !== shapeField.value) return;
      const recipe = table.recipes[row[width]];
      for (const [key, column] of Object.entries(table.times)) {
        const side = index.sides[key], time = column[number];
        if (!key.startsWith("datasheet:") || time === null) continue;
        const wave = table.times[`wave:${side.device}`]?.[number] ?? null, flops = work.get(recipe);
        const seen = fastest(side.device, recipe), name = [side.device, time, wave, flops, seen].join("|");
        if (!lines.has(name)) lines.set(name, { side, time, wave, flops, seen, recipes: [] });
        lines.get(name).recipes.push(recipe);
      }
    });
    const rows = [...lines.values()].sort((a, b) => a.time - b.time);
    if (!rows.length) {
      place.replaceChildren(element("p", { className: "quiet", textContent:
        `The datasheet and the wave model say nothing of ${own.title.toLowerCase()}.` }));
      return;
    }
    const rate = (time, flops) => time && flops ? flops / time / 1e6 : null;
    place.replaceChildren(
      element("h2", { textContent: "Predicted for every card" }),
      element("p", { textContent: "The datasheet\u2019s roofline is a bound: if the datasheet is right, no program is faster. The wave model adds tiles, waves and launches by a description of the card; nothing of it is fitted. Where a card was measured, its time stands beside them, so that you see how far they are off." }),
      grid("modelled", "Predicted by datasheet and wave model", [
        { label: "device", value: ({ side }) => side.title, href: ({ side }) => side.page },
        { label: "recipes", kind: "wide", value: ({ recipes }) => recipes.join(", ") },
        { label: "datasheet", unit: "\u00b5s", kind: "number", about: "least time by the datasheet", value: ({ time }) => time, show: (time) => significant(time) },
        { label: "datasheet", unit: "TFLOP/s", kind: "number", value: ({ time, flops }) => rate(time, flops), show: (value) => significant(value) },
        { label: "wave model", unit: "\u00b5s", kind: "number", value: ({ wave }) => wave, show: (time) => significant(time) },
        { label: "wave model", unit: "TFLOP/s", kind: "number", value: ({ wave, flops }) => rate(wave, flops), show: (value) => significant(value) },
        { label: "measured", unit: "\u00b5s", kind: "number", about: "the fastest provider and environment", value: ({ seen }) => seen, show: (time) => significant(time) },
      ], rows, ({ seen }) => seen !== null));
  }

  const wanted = asked();
  offer(opField, [...ops].map(([name, { title }]) => [name, title]), wanted.get("op") || "gemm");
  function start() {
    const op = opField.value, now = asked(), shapes = shapesOf(op), { axes: names } = ops.get(op);
    typedFields(op);
    offer(shapeField, shapes.map(([key, sizes]) => [key, shapeText(sizes)]));
    const isOfLink = now.get("op") === op && names.some((axis) => now.has(axis));
    fill(op, isOfLink ? names.map((axis) => now.get(axis)) : shapes[Math.floor(shapes.length * 0.8)][1]);
    const unknown = now.has("op") && !ops.has(now.get("op"));
    lookUp(unknown ? `The link asks for op \u201c${now.get("op")}\u201d, of which nobody published times. ` : "");
  }
  opField.addEventListener("change", start);
  shapeField.addEventListener("change", () => {
    fill(opField.value, shapeField.value.split("x"));
    lookUp();
  });
  addEventListener("hashchange", () => {
    if (ops.has(asked().get("op"))) opField.value = asked().get("op");
    start();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  start();
})();
