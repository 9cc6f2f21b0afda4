// Language models on every device: throughput against speed, first token, time and cost per token, calibrated or predicted.
"use strict";
(async () => {
  const { load, grid, chart, asked, keep, offer, sideName } = roofcal;
  const [index, table] = await Promise.all([load("index"), load("language_models")]);
  const form = document.getElementById("question"), { model, recipe, batch } = form.elements;
  const at = Object.fromEntries(table.columns.map((column, place) => [column, place]));
  const rows = table.rows.map((row) => Object.fromEntries(table.columns.map((name) => [name, row[at[name]]])));
  const without = table.without.map(([side, model, recipe, least, reason]) => ({ side, model, recipe, least, reason }));
  const milli = (value) => value === null ? null : value * 1e3;
  const interval = (low, high) => low === null ? null : `${significant(milli(low))} to ${significant(milli(high))}`;

  const GROUPS = [
    ["measured:", "Calibrated on the card", "Constants fitted on probes of the card itself, with 95 % intervals."],
    ["wave:", "Predicted by the wave model", "From a description of the card: tiles, waves, launches. Nothing is fitted; a measured card stands here too, so that you see how far the model is off."],
    ["datasheet:", "Bound by the datasheet", "Peak rates and full bandwidth: no card is faster, and real ones are slower."],
  ];
  // Every recipe and batch on every card of the first kind of answer that there is, and the Pareto front of them all.
  function drawFront() {
    const { colours, markers } = index, place = document.getElementById("front");
    const ofModel = rows.filter((row) => row.model === model.value);
    const [prefix, title] = GROUPS.find(([own]) => ofModel.some(({ side }) => side.startsWith(own))) ?? [];
    if (!prefix) return place.replaceChildren();
    const own = ofModel.filter(({ side }) => side.startsWith(prefix));
    const cards = [...new Set(own.map(({ side }) => side))], marks = Object.values(markers);
    const points = own.map((row) => ({ card: sideName(index.sides[row.side]), recipe: row.recipe, gpus: row.gpus, batch: row.batch,
      line: `${row.side} ${row.recipe}`, per_request: 1 / row.decode_step_s, per_gpu: row.decode_tokens_per_s / row.gpus,
      colour: colours[row.recipe], marker: marks[cards.indexOf(row.side) % marks.length], dashed: 0 }));
    let most = 0;
    const front = [...points].sort((a, b) => b.per_request - a.per_request || b.per_gpu - a.per_gpu)
      .filter(({ per_gpu: rate }) => rate > most && (most = rate))
      .map(({ per_request, per_gpu }) => ({ per_request, per_gpu, colour: "var(--line)", dashed: 0 }));
    const legend = [{ field: "", value: "Pareto front: nothing else drawn is better in both", colour: "var(--line)" },
      ...cards.map((side, at) => ({ field: "card", value: sideName(index.sides[side]), colour: "var(--ink)", path: marks[at % marks.length] })),
      ...Object.keys(colours).filter((name) => points.some((point) => point.recipe === name)).map((name) =>
        ({ field: "recipe", value: name, colour: colours[name] }))];
    return chart(place, "serving", `${title}: ${model.value}, tokens per second of each GPU against those of one request, a dot per batch.`,
      { points, front }, legend);
  }
  // A price per card, which the person types: none is known here.
  const cards = new Map(Object.values(index.sides).map(({ device, title }) => [device, title]));
  const prices = new Map([...cards].map(([device, title]) => [device, element("input", { name: device, inputMode: "decimal", size: 8 })]));
  document.querySelector("#prices div").append(...[...prices].map(([device, field]) => element("label", {}, `${cards.get(device)}, $`, field)));
  const dollars = (device) => Number(prices.get(device).value) > 0 ? Number(prices.get(device).value) : null;
  const cost = (row) => dollars(row.of.device) && dollars(row.of.device) / 3600 / tokensPerGpu(row) * 1e6;  // $ per million tokens
  const powerLimit = ({ rates, device }) => (rates.power ?? index.sides[`datasheet:${device}`]?.rates.power)?.[0];  // W
  const tokensPerGpu = (row) => row.decode_tokens_per_s / row.gpus;
  function draw() {
    const typed = [...prices].filter(([, field]) => field.value.trim() !== "");
    for (const [device, field] of prices) field.setAttribute("aria-invalid", String(field.value.trim() !== "" && dollars(device) === null));
    keep({ model: model.value, recipe: recipe.value, batch: batch.value, ...Object.fromEntries(typed.map(([device, field]) => [device, field.value])) });
    const isAsked = (row) => row.model === model.value && row.recipe === recipe.value;
    const own = rows.filter((row) => isAsked(row) && String(row.batch) === batch.value)
      .map((row) => ({ ...row, of: index.sides[row.side] })).sort((a, b) => a.decode_step_s - b.decode_step_s);
    const devices = new Set(own.map(({ of }) => of.device));
    const requests = `${batch.value} ${batch.value === "1" ? "request" : "requests"}`;
    document.getElementById("asked").textContent = own.length
      ? `${model.value} in ${recipe.value}: ${requests} at once, with a prompt of ${table.prompt.toLocaleString("en")} tokens and ${table.output} generated, on ${devices.size} devices. ${cheapest(own)}Compare rows of one table only: times are calibrated in the first, estimated in the second, and lower bounds in the third.`
      : `No device holds ${requests} of ${model.value} in ${recipe.value}, or none has a rate for the recipe.`;
    const parts = GROUPS.flatMap(([prefix, title, about]) => {
      const group = own.filter(({ side }) => side.startsWith(prefix));
      return group.length ? [element("h2", { textContent: title }), element("p", { textContent: about }), speeds(prefix, title, group)] : [];
    });
    const reasons = without.filter((row) => isAsked(row) && Number(batch.value) >= row.least);
    const lines = reasons.map(({ side, reason }) => element("li", {
      textContent: `${index.sides[side].title}, ${index.sides[side].environment}: ${reason}` }));
    if (lines.length) parts.push(element("h2", { textContent: "Cards without an answer, and why" }), element("ul", { id: "no-answer" }, ...lines));
    document.getElementById("speeds").replaceChildren(...parts);
  }
  // Of the cards with a price, by the best kind of answer that any of them has.
  function cheapest(own) {
    const priced = own.filter((row) => cost(row) !== null).sort((a, b) => cost(a) - cost(b));
    const [prefix, title] = GROUPS.find(([prefix]) => priced.some(({ side }) => side.startsWith(prefix))) ?? [];
    const best = priced.find(({ side }) => side.startsWith(prefix));
    return best ? `At your prices ${best.of.title} is the cheapest (${title.toLowerCase()}): $${significant(cost(best))} per million tokens. ` : "";
  }
  const speeds = (prefix, title, group) => grid(`speeds-${prefix.slice(0, -1)}`, `${title}, by time per token`, [
    { label: "device", value: ({ of }) => of.title, href: ({ of }) => of.page },
    { label: "environment", value: ({ of }) => of.report ? of.environment : null },
    { label: "GPUs", kind: "number", about: "the fewest that hold it", value: ({ gpus }) => gpus },
    { label: "split", about: "tp: GPUs that share each matrix; pp: GPUs that take layers in turn", value: ({ tp, pp }) => `tp ${tp}, pp ${pp}` },
    { label: "first token", unit: "ms", kind: "number", value: (row) => milli(row.first_token_s), show: (time) => significant(time) },
    { label: "95 % interval", unit: "ms", value: (row) => interval(row.first_token_low_s, row.first_token_high_s) },
    { label: "per token", unit: "ms", kind: "number", value: (row) => milli(row.decode_step_s), show: (time) => significant(time) },
    { label: "95 % interval", unit: "ms", value: (row) => interval(row.decode_step_low_s, row.decode_step_high_s) },
    { label: "tokens/s", about: "of all requests, in decode", kind: "number", value: (row) => row.decode_tokens_per_s, show: (rate) => significant(rate) },
    { label: "tokens/s per GPU", kind: "number", value: tokensPerGpu, show: (rate) => significant(rate) },
    { label: "energy, at most", unit: "J/token", about: "power limit of the GPUs over tokens/s, in decode", kind: "number",
      value: (row) => powerLimit(row.of) ? powerLimit(row.of) / tokensPerGpu(row) : null, show: (energy) => significant(energy) },
    { label: "price", unit: "$/Mtok", about: "of the GPU hours, in decode, by the price typed above", kind: "number",
      value: cost, show: (dollars) => significant(dollars) },
    { label: "records", value: ({ of }) => of.report ? "report" : null, href: ({ of }) => of.report },
  ], group);

  function start() {
    const wanted = asked(), distinct = (key) => [...new Set([...rows, ...without].map((row) => row[key]).filter((value) => value !== undefined))].map((value) => [value, String(value)]);
    offer(model, distinct("model"), wanted.get("model") || "llama3-70b");
    offer(recipe, distinct("recipe"), wanted.get("recipe") || "fp8_axiswise");
    offer(batch, distinct("batch").sort(([a], [b]) => a - b), wanted.get("batch") || "16");
    for (const [device, field] of prices) field.value = wanted.get(device) ?? "";
    document.getElementById("prices").open ||= [...prices.keys()].some((device) => wanted.has(device));
    draw();
    drawFront();
  }
  form.addEventListener("input", ({ target }) => { draw(); if (target === model) drawFront(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", start);
  start();
})();
