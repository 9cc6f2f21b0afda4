// Two sides against each other: rates, rooflines, and times of the shapes that both have.
"use strict";
(async () => {
  const { load, scaled, median, grid, chart, asked, keep, offer, sideName } = roofcal;
  const index = await load("index");
  const form = document.getElementById("sides"), { a: aField, b: bField, op: opField } = form.elements;
  const GROUPS = { measured: "Measured", datasheet: "Datasheets, nobody measured", wave: "Predicted by the wave model" };
  const kindOf = (key) => key.split(":")[0];

  // "op|recipe|shape" -> the fastest time of a side, in microseconds, with its regime
  async function timesOf(key) {
    const found = new Map();
    const add = (op, own, recipe, regime, shape, time, about) => {
      const name = [op, own.recipes[recipe], shape].join("|"), before = found.get(name);
      if (time === null || (before && before.time <= time)) return;
      found.set(name, { op, title: own.title, recipe: own.recipes[recipe], regime: own.regimes[regime], order: [regime, recipe], time, ...about });
    };
    if (kindOf(key) === "measured") {
      for (const [op, own] of Object.entries(await load(key.replace("measured:", "points/")))) {
        const at = Object.fromEntries(own.columns.map((column, place) => [column, place]));
        for (const row of own.rows) add(op, own, row[at.recipe], row[at.regime],
          row.slice(0, own.axes.length + 1).join("x"), row[at.time_us], { provider: own.providers[row[at.provider]],
            low: row[at.low_us], high: row[at.high_us], flops: row[at.flops], bytes: row[at.bytes] });
      }
      return found;
    }
    for (const [op, own] of Object.entries(await load("modelled"))) {
      const width = own.axes.length;
      (own.times[key] || []).forEach((time, place) => {
        const row = own.rows[place];
        add(op, own, row[width], row[width + 1], [...row.slice(0, width), 1].join("x"), time);
      });
    }
    return found;
  }

  function drawQuantities(a, b) {
    const rows = Object.entries(index.quantities)
      .map(([key, [label, unit]]) => ({ label, unit, a: a.rates[key], b: b.rates[key] }))
      .filter((row) => row.a || row.b);
    const shown = (rates, unit) => rates ? scaled(rates[0], unit) : null;
    const interval = (rates, unit) => rates && rates.length > 1 && rates[1] !== rates[2]
      ? `${scaled(rates[1], unit)} to ${scaled(rates[2], unit)}` : null;
    return grid("rates", "Rates", [
      { label: "what", value: ({ label }) => label },
      { label: "A", about: sideName(a), value: (row) => shown(row.a, row.unit) },
      { label: "A, 95 % interval", value: (row) => interval(row.a, row.unit) },
      { label: "B", about: sideName(b), value: (row) => shown(row.b, row.unit) },
      { label: "B, 95 % interval", value: (row) => interval(row.b, row.unit) },
      { label: "B / A", kind: "number", value: (row) => row.a && row.b ? row.b[0] / row.a[0] : null, show: times },
    ], rows);
  }

  // Both rooflines: roofs of each recipe, and the points that were measured. Slow accumulation is left out.
  const DRAM = ["dram_read_bytes_per_s", "dram_write_bytes_per_s", "dram_copy_bytes_per_s"];
  function drawRoofline(sides) {
    const points = [], roofs = [], recipes = new Set();
    const { colours, markers } = index;
    for (const [side, { about, own }] of Object.entries(sides))
      for (const [name, entry] of own) {
        if (entry.op !== "gemm" || !entry.flops || entry.recipe.endsWith("slow_accum")) continue;
        recipes.add(entry.recipe);
        points.push({ side, name: sideName(about), recipe: entry.recipe, provider: entry.provider,
          shape: name.split("|")[2].split("x").slice(0, 3).map((size) => Number(size).toLocaleString("en")).join(" \u00d7 "),
          intensity: entry.flops / entry.bytes, rate: entry.flops / entry.time * 1e6,
          time: entry.time / 1e6, low: entry.low / 1e6, high: entry.high / 1e6,
          colour: colours[entry.recipe], marker: markers[side] });
      }
    const spread = points.map(({ intensity }) => intensity), slowest = Math.min(...points.map(({ rate }) => rate));
    const [low, high] = points.length ? [Math.min(...spread) / 2, Math.max(...spread) * 2] : [1, 4096];
    for (const [side, { about: { rates } }] of Object.entries(sides)) {
      const slope = Math.max(...DRAM.map((key) => rates[key]?.[0] ?? 0));
      for (const recipe of Object.keys(colours)) {
        const peak = rates[`rate.${recipe}`]?.[0];
        if (!peak || !slope || (points.length && !recipes.has(recipe))) continue;
        if (recipe.endsWith("slow_accum")) continue;
        recipes.add(recipe);
        const start = points.length ? Math.max(low, slowest / 1.6 / slope) : low;
        for (const intensity of [start, Math.max(peak / slope, start), Math.max(high, peak / slope)])
          roofs.push({ side, recipe, line: `${side} ${recipe}`, intensity, rate: Math.min(peak, intensity * slope),
            colour: colours[recipe], dashed: side === "B" ? 1 : 0 });
      }
    }
    const place = document.getElementById("roofline");
    if (!points.length && !roofs.length) return place.replaceChildren();
    const legend = [...Object.entries(sides).map(([side, { about }]) =>
      ({ field: "side", value: side, label: `${side}: ${sideName(about)}`, colour: "var(--ink)", path: markers[side] })),
    ...Object.keys(colours).filter((recipe) => recipes.has(recipe)).map((recipe) =>
      ({ field: "recipe", value: recipe, colour: colours[recipe] }))];
    return chart(place, "roofline", "Rooflines of A (solid) and B (dashed) with their measured products.", { points, roofs }, legend);
  }

  // One line per regime, one column per recipe: the median of the ratios, and their range.
  function drawRegimes(own, other) {
    const regimes = new Map(), recipes = new Map();
    for (const [name, { op, regime, recipe, order, time }] of own) {
      if (!other.has(name) || op !== opField.value) continue;
      if (!regimes.has(regime)) regimes.set(regime, { regime, place: order[0], ratios: new Map() });
      const { ratios } = regimes.get(regime);
      if (!ratios.has(recipe)) ratios.set(recipe, []);
      ratios.get(recipe).push(time / other.get(name).time);
      recipes.set(recipe, order[1]);
    }
    const rows = [...regimes.values()].sort((a, b) => a.place - b.place);
    const all = rows.flatMap(({ ratios }) => [...ratios.values()]).flat();
    const shown = (_, { ratios }, recipe) => {
      const own = ratios.get(recipe), [low, high] = [Math.min(...own), Math.max(...own)];
      return own.length > 1 ? `${times(median(own))} (${low.toFixed(2)} to ${high.toFixed(2)})` : times(own[0]);
    };
    const columns = [...recipes].sort(([, a], [, b]) => a - b).map(([recipe]) => ({
      label: recipe, kind: "number", about: "median over shapes, and the range",
      value: ({ ratios }) => ratios.has(recipe) ? median(ratios.get(recipe)) : null,
      show: (value, row) => shown(value, row, recipe) }));
    return grid("ratios", `Time of A over time of B, by regime: above 1, B is faster (median of all ${times(median(all))})`, [
      { label: "regime", value: ({ regime }) => regime },
      { label: "shapes", kind: "number", about: "that both sides have, of the recipe with most", value: ({ ratios }) => Math.max(...[...ratios.values()].map((own) => own.length)) },
      ...columns,
    ], rows);
  }

  let unknown = [];  // sides that a link asked for and the page has not
  async function draw() {
    const [aKey, bKey] = [aField.value, bField.value], a = index.sides[aKey], b = index.sides[bKey];
    const [own, other] = await Promise.all([timesOf(aKey), timesOf(bKey)]);
    if (aField.value !== aKey || bField.value !== bKey) return; // another choice was made meanwhile
    document.getElementById("quantities").replaceChildren(drawQuantities(a, b));
    const both = [...own].filter(([name]) => other.has(name)), shapes = both.length;
    const ops = [...new Map(both.map(([, { op, title }]) => [op, title]))];
    offer(opField, ops, opField.value || asked().get("op"));
    opField.parentElement.hidden = ops.length < 2;
    keep({ a: aKey, b: bKey, ...(shapes ? { op: opField.value } : {}) });
    document.getElementById("regimes").replaceChildren(...(shapes ? [drawRegimes(own, other)] : []));
    await drawRoofline({ A: { about: a, own }, B: { about: b, own: other } });
    const notes = [...unknown, ...[a, b].filter((side) => !side.report).map((side) => `${sideName(side)} was not measured.`)];
    document.getElementById("compared").textContent = shapes
      ? `${shapes.toLocaleString("en")} pairs of shape and recipe were timed on both, in ${ops.length === 1 ? "one op" : `${ops.length} ops`}; each side counts with its fastest provider. ${notes.join(" ")}`
      : `The two have no shape in common. ${notes.join(" ")}`;
  }

  const entries = Object.entries(index.sides).map(([key, side]) => [key, sideName(side), GROUPS[kindOf(key)]]);
  const first = entries.filter(([key]) => key.startsWith("measured:"))[0] || entries[0];
  const device = index.sides[first[0]].device;
  const second = entries.find(([key]) => key.startsWith("measured:") && key !== first[0])
    || entries.find(([key]) => key !== first[0] && key === `datasheet:${device}`) || entries[1];
  function start() {
    const wanted = asked();
    unknown = ["a", "b"].filter((name) => wanted.has(name) && !index.sides[wanted.get(name)])
      .map((name) => `The link asks for \u201c${wanted.get(name)}\u201d, which is not here.`);
    offer(aField, entries, wanted.get("a") || second[0]);
    offer(bField, entries, wanted.get("b") || first[0]);
    return draw();
  }
  form.addEventListener("change", () => { unknown = []; draw(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", start);
  await start();
})();
