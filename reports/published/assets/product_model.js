// The calibrated equations of products and of casts along rows, as roofcal/ops/gemm/model.py,
// roofcal/ops/mixed_gemm/model.py and roofcal/ops/cast/model.py have them: same names, same order. tests/roofcal/report/test_shape_box.py holds them to Python.
// Data: roofcal/report/shape_box.py; where a calibration leaves a constant out, it gives the value that has no effect.
"use strict";
const productModel = (() => {
  const gcd = (a, b) => { while (b) [a, b] = [b, a % b]; return a; };

  function operandBytes({ bits, scale_bits, rows: perRows, cols: perCols, per_scale }, rows, cols) {
    const elements = Math.ceil(bits * rows * cols / 8);
    if (!scale_bits) return elements;
    const count = (perRows ? Math.ceil(rows / perRows) : 1) * (perCols ? Math.ceil(cols / perCols) : 1);
    return elements + per_scale * Math.ceil(scale_bits * count / 8);
  }

  function leastWork(option, { m, n, k, rows, cols }) {
    if (option.op === "cast") return { bytes: 2 * option.reads * rows * cols + operandBytes(option.out, rows, cols) };
    const bytes = operandBytes(option.a, m, k) + operandBytes(option.b, n, k) + Math.ceil(option.out_bits * m * n / 8);
    return { flops: 2 * m * n * k, bytes };
  }

  // The largest divisor of 16, in bytes, of the row lengths of A, B and C.
  const rowAlignment = (option, { n, k }) =>
    gcd(gcd(Math.trunc(k * option.a.bits / 8), Math.trunc(n * option.out_bits / 8)), 16);

  // [seconds, what binds]: the largest of the parts, of equal ones the first.
  const bound = (parts) => Object.keys(parts).reduce((best, name) => parts[name] > parts[best] ? name : best);

  const fourthNorm = (a, b) => (a ** 4 + b ** 4) ** 0.25;

  function joined({ launch, tiles, sums, dram, power }) {
    return { total: fourthNorm(launch + fourthNorm(tiles, dram) + sums, power), boundBy: bound({ launch: launch + sums, tiles, dram, power }) };
  }

  // kernels.gemm.rule: [rows, columns, split] that our kernels take for a shape.
  function ourTile({ tiles, few_rows_columns: narrow }, { m, n, k }, units) {
    if (m > 64) {
      const cost = ([rows, cols, rate]) => Math.ceil(Math.ceil(m / rows) * Math.ceil(n / cols) / units) * rows * cols / rate;
      const [rows, cols] = tiles.reduce((best, tile) => cost(tile) < cost(best) ? tile : best);
      return [rows, cols, 1];
    }
    const steps = Math.ceil(k / 128), forAllUnits = Math.floor(2 * units / Math.ceil(n / narrow));
    const pieces = Math.max(1, Math.min(forAllUnits, Math.floor(steps / 4)));
    return [2 ** Math.ceil(Math.log2(Math.max(m, 16))), narrow, Math.ceil(steps / Math.ceil(steps / pieces))];
  }

  // roofcal.ops.gemm.model.groups_of and roofcal.ops.regimes
  function gemmGroup(option, shape) {
    const { m, n, k } = shape;
    if (rowAlignment(option, shape) !== 16) return "unaligned";
    const kind = n % 128 || k % 128 ? "partial" : "whole";
    return `${kind}.${gemmRegime(shape, [n, k, m > 64 ? m : 0])}`;
  }

  // roofcal.ops.regimes.gemm_regime
  function gemmRegime({ m, n, k }, sides) {
    if (sides.some((side) => side % 16)) return "ragged";
    if (Math.min(m, n) <= 64) return "decode";
    if (k <= 1024 && 4 * k <= Math.min(m, n)) return "skinny_k";
    const side = Math.cbrt(m * n * k);
    return side <= 1024 * 1.0001 ? "small" : side <= 4096 * 1.0001 ? "mid" : "large";
  }

  // roofcal.ops.gemm.model: products of processors.
  function packedTime(option, { m, n, k }, units, c) {
    const a = operandBytes(option.a, m, k), b = operandBytes(option.b, n, k), flops = 2 * m * n * k;
    const slower = 1 + c.far * Math.max(0, 1 - c.near_bytes / b);
    const copying = (a / c.pack_a_bytes_per_s + b / c.pack_b_bytes_per_s + (a + b) / c.pack_bytes_per_s) * slower;
    const multiplying = flops / (units * c.tile_flops_per_s);
    const moving = copying + Math.ceil(option.out_bits * m * n / 8) / c.update_bytes_per_s;
    const reading = b / c.dram_bytes_per_s * slower, unpacked = flops / c.direct_flops_per_s;
    const isDirect = reading + unpacked < moving + multiplying;
    const launch = c.launch_s + c.side_s * (m + n);
    const tiles = isDirect ? unpacked : multiplying, dram = isDirect ? reading : moving;
    return { total: launch + tiles + dram, boundBy: bound({ launch, tiles, dram, power: 0 }) };
  }

  function gemmTime(option, shape, units) {
    const { m, n, k } = shape, { family } = option;
    const { constants } = option;
    if (family.constants) return packedTime(option, shape, units, constants);
    const width = option.a.bits / 8, { flops, bytes } = leastWork(option, shape);
    const launch = constants.launch_s, dram = bytes / constants.dram_bytes_per_s;
    if (!family.tiles.length && !family.rule) {
      const math = flops / units / constants.tile_flops_per_s;
      const latency = k * width * constants.k_latency_s_per_byte;
      return joined({ launch, dram, tiles: fourthNorm(math, latency), sums: 0, power: 0 });
    }
    const alignment = rowAlignment(option, shape);
    const path = alignment === 16 ? "" : alignment === 8 ? "8_byte_" : "odd_";
    const kLatency = constants[`k_latency_${path}s_per_byte`] ?? constants.k_latency_s_per_byte;
    const misaligned = (k * width) % 64 !== 0 ? constants.misaligned : 1;
    let best = { tiles: Infinity, sums: 0 };
    const own = family.rule ? ourTile(option.rule, shape, units) : null;
    for (const [rows, cols] of own ? [own] : family.tiles) {
      for (const split of own ? [own[2]] : family.splits) {
        const count = Math.ceil(m / rows) * Math.ceil(n / cols) * split;
        const busy = Math.min(count, units), whole = Math.ceil(count / units);
        const waves = own && whole > 1 ? (whole + count / units) / 2 : whole;
        const stepBytes = Math.ceil(k / split * width / 128) * 128;
        const math = 2 * rows * cols * stepBytes / width / constants.tile_flops_per_s;
        const bandwidth = Math.min(constants.load_bytes_per_s, constants.l2_bytes_per_s / busy);
        const load = stepBytes * (rows + cols) / bandwidth * misaligned;
        const latency = own && m <= 64 ? 0 : stepBytes * kLatency;
        const step = (math ** 4 + load ** 4 + latency ** 4) ** 0.25;
        const stores = waves * (2 * rows * cols / constants.store_bytes_per_s);
        const sumBytes = 4 * split * (own ? rows * cols : m * n);
        const sums = split === 1 ? 0 : constants.split_k_s + sumBytes / constants.piece_bytes_per_s;
        const tiles = step + (waves - 1) * (step + constants.wave_s) + stores;
        if (fourthNorm(tiles, dram) + sums < fourthNorm(best.tiles, dram) + best.sums) best = { tiles, sums };
      }
    }
    return joined({ launch, dram, ...best, power: flops / constants.sustained_flops_per_s });
  }

  // roofcal.ops.mixed_gemm.model.our_blocks: the block that our int4 kernels take, how many a multiprocessor
  // holds at once (resident), and how many there are (count).
  function ourBlock(option, { m, n, k }, units) {
    const group = option.b.cols ?? k, padded = Math.ceil(n / 64) * 64, ofK = Math.ceil(k / 128);
    const held = (block) => { // 0 where the block does not fit
      if (block.specialised) {
        const scales = (group === k ? 1 : Math.max(1, 128 / group)) * (option.b.per_scale ?? 1);
        const slot = block.rows * (64 + 2 * scales) + 256 * block.tokens + 16;
        if (block.stages * slot + 1024 > 232448) return 0;
        return Math.ceil(ofK / block.split) * (block.split - 1) < ofK ? 1 : 0;
      }
      if (padded % block.rows) return 0;
      const warps = block.split * block.warps;
      if (block.direct) return ofK % warps || ofK > block.most_units * warps || (group === 32 && block.tokens !== 8) ? 0 : 1;
      if (ofK % (block.split * block.unroll)) return 0;
      const own = Math.floor(ofK / block.split), groups = group === k ? 1 : Math.max(1, own * 128 / group);
      const slot = block.unroll * (64 * block.rows + 256 * block.tokens) + 8;
      const shared = Math.min(block.stages, Math.floor(own / block.unroll)) * slot
        + 2 * 2 ** Math.ceil(Math.log2(groups)) * block.rows * (option.b.per_scale ?? 1) + 1024;
      return shared > 232448 ? 0 : Math.max(1, Math.min(Math.floor(228 * 1024 / shared), Math.floor(64 / block.warps)));
    };
    const count = ({ rows, tokens, split }) => Math.ceil(padded / rows) * Math.ceil(m / tokens) * split;
    const turns = (block) => Math.ceil(Math.ceil(count(block) / units) / held(block));
    const estimate = (block) => block.specialised
      ? turns(block) * (block.start_us + block.unit_us * Math.ceil(ofK / block.split)) + block.part_us * (block.split > 1 ? block.split : 0)
      : turns(block) * (block.start_us + block.unit_us * k / 128 / block.split) + 1.76 * Math.log2(block.split);
    for (const row of option.rule.rows) {
      if (m > row.most_tokens || n > row.most_rows || n * k > row.most_weights || group < row.least_group) continue;
      for (const blocks of [row.blocks, row.otherwise]) {
        const fitting = blocks.filter(held);
        if (!fitting.length) continue;
        const block = fitting.reduce((best, one) => !one.direct && estimate(one) < estimate(best) ? one : best);
        return { ...block, resident: held(block), count: count(block) };
      }
    }
    const plain = { direct: false, rows: 64, tokens: 64, split: 1, warps: 4, unit_us: 0 };
    return { ...plain, resident: 1, count: count(plain) };
  }

  function ourNarrowTime(option, shape, units) {
    const block = ourBlock(option, shape, units);
    const none = { waiting: 0, ragged: 0, turn_s: 0, halving_s: 0, unit_s: 0, direct_s: 0, filling_s: 0 };
    const constants = { ...none, ...option.constants };
    const columns = 128 * Math.ceil(shape.k / 128 / block.split);
    const atOnce = units * block.resident, full = Math.floor(block.count / atOnce), rest = block.count - full * atOnce;
    const turns = full + (rest > 0), lastTurn = (Math.ceil(rest / units) + rest / units) / 2;
    const ofUnit = full * block.resident + lastTurn;
    const work = block.direct ? 0 : ofUnit * units * block.rows * columns;
    const waits = block.direct ? 0 : turns * constants.waiting * block.unit_us * 1e-6 * columns / 128;
    const blocksOfTokens = shape.m / block.tokens, share = block.count / units;
    const ragged = shape.m > 8 && shape.m % 8 ? 1 + constants.ragged * (Math.ceil(blocksOfTokens) - blocksOfTokens) : 1;
    const launch = (block.direct
      ? constants.direct_s + constants.unit_s * columns / 128 / block.warps * block.tokens / 8
      : constants.turn_s * turns)
      + constants.halving_s * (block.direct ? block.tokens / 16 : 0.5 + block.tokens / 64) * Math.log2(block.split);
    const busiest = block.direct ? (Math.ceil(share) + share) / (2 * share) : 1;
    const dram = leastWork(option, shape).bytes * busiest / constants.bytes_per_s;
    const chain = block.direct ? constants.filling_s * Math.min(1, share) : 0;
    const slots = waits + work / constants.weights_per_s;
    const math = 2 * block.tokens * work * ragged / constants.flops_per_s;
    const largest = bound({ launch: launch + chain, dram, work: slots + math });
    return {
      total: launch + fourthNorm(dram, chain + slots + math),
      boundBy: largest === "work" ? (slots >= math ? "slots" : "math") : largest };
  }

  function narrowTime(option, shape, units) {
    if (option.family.rule) return ourNarrowTime(option, shape, units);
    const { m, n, k } = shape, { family } = option, constants = { weights_per_s: Infinity, ...option.constants };
    if (family.converts) {
      const launch = constants.fixed_s, dram = 2 * (m * n + n * k + m * k) / constants.bytes_per_s;
      const slots = 3 * n * k / constants.pass_bytes_per_s, math = 2 * m * n * k / constants.flops_per_s;
      return {
        total: launch + slots + fourthNorm(dram, math), boundBy: bound({ launch, dram, slots, math }) };
    }
    const sides = family.blocks;
    const block = sides.length ? sides.find((side) => side >= m) ?? sides.at(-1) : m;
    const blocks = sides.length ? Math.ceil(m / block) : 1;
    let slotWork = n * k * blocks;
    if (family.splits.length) {
      const edge = constants.block_columns * block / 64, tiles = Math.ceil(n / 64) * blocks / units;
      slotWork = units * 64 * Math.min(...family.splits.map((split) =>
        (Math.max(tiles * split, 1) + Math.ceil(tiles * split)) / 2 * (k / split + edge)));
    }
    const launch = constants.fixed_s, dram = leastWork(option, shape).bytes / constants.bytes_per_s;
    const slots = slotWork / constants.weights_per_s, math = 2 * slotWork * block / constants.flops_per_s;
    const largest = bound({ launch, dram, work: slots + math });
    return {
      total: launch + fourthNorm(dram, slots + math),
      boundBy: largest === "work" ? (slots >= math ? "slots" : "math") : largest };
  }

  // roofcal.ops.cast.launches, of casts along rows.
  function inductorLaunches(recipe, rows, cols, units) {
    if (recipe === "fp8_tensorwise") return rows * cols > 8192 ? 2 : 0;
    if (recipe === "fp8_rowwise_dim0") return cols > 8192 && rows < 2 * units ? 2 : cols > 1024 ? 0.5 : 0;
    return recipe === "fp8_blockwise_1x128" && cols % 128 ? 1 : 0;
  }

  // `slower` of roofcal.ops.cast.model, of casts along rows.
  function castSlower({ family, recipe }, { rows, cols }, { misaligned, uneven }) {
    if (family.loads === "rows") {
      const padded = cols <= 2048 ? 2 ** Math.ceil(Math.log2(cols)) : 2048 * Math.ceil(cols / 2048);
      return cols % 8 ? misaligned : padded / cols;
    }
    const divisor = gcd(cols, 8);
    const isRagged = family.loads === "multiples_of_4" ? cols % 4 : rows % 16 || cols % 16;
    let slower = isRagged ? misaligned : 1;
    if (family.loads === "by_divisor") slower = divisor < 8 ? Math.sqrt(1 + (misaligned ** 2 - 1) / divisor ** 2) : 1;
    if (family.rule === "ours" && recipe === "fp8_rowwise_dim0" && cols > 16384 && rows > 128) slower = Math.max(slower, 1.2);
    return slower * (cols % family.line ? uneven : 1);
  }

  function castTime(option, shape, units) {
    const { family, recipe, constants } = option, { rows, cols } = shape, elements = rows * cols;
    const { bytes } = leastWork(option, shape);
    let launch = constants.fixed_s, dram;
    if (family.grain) {
      const threads = Math.min(units, Math.ceil(elements / family.grain)), cached = Math.min(1, constants.near_bytes / bytes);
      const perByte = cached / constants.cached_bytes_per_s + (1 - cached) / constants.bytes_per_s;
      const shared = bytes * perByte + (cols % 64 ? rows * constants.row_s : 0);
      dram = shared / threads + bytes / constants.serial_bytes_per_s;
      launch += threads > 1 ? constants.fork_s : 0;
    } else {
      const isReadTwice = family.rule === "ours" && recipe === "fp8_tensorwise";
      const cached = isReadTwice ? Math.min(2 * elements, constants.near_bytes) : 0;
      dram = castSlower(option, shape, constants) * (bytes - cached) / constants.bytes_per_s;
      const further = family.rule === "inductor" ? inductorLaunches(recipe, rows, cols, units) : 0;
      launch += constants.fill_s * elements / (elements + 20000) + constants.further_s * further;
    }
    return { total: launch + dram, boundBy: dram >= launch ? "dram" : "launch" };
  }

  // roofcal.ops.cast.model.groups_of
  const castGroup = ({ rows, cols }) => cols % 8 ? "unaligned"
    : Math.min(rows, cols) <= 128 ? "few_rows" : rows * cols < 2 ** 24 ? "small" : "large";

  // roofcal.ops.predictions: doublings to the span of the probes; 0 within, null where there were none.
  function doublingsOutside(option, shape, noticeable) {
    if (!option.span) return null;
    const extents = { ...shape, ...leastWork(option, shape) };
    const farthest = Math.max(...Object.entries(option.span).map(([name, [low, high]]) =>
      Math.log2(Math.max(extents[name] / high, low / extents[name]))));
    return farthest > noticeable ? farthest : 0;
  }

  // roofcal.ops.predictions: [low, high] of the interval of a time, inside or outside of the probes.
  function ends({ roofs }, total, halfWidth, doublings, work, device) {
    const streamed = roofs.bytes_per_s && work.bytes / roofs.bytes_per_s;
    const low = Math.max(total / Math.exp(halfWidth), Math.min(streamed, total));
    if (!doublings) return [low, total * Math.exp(halfWidth)];
    const grown = halfWidth * (1 + device.growth_outside * Math.min(doublings, device.most_doublings));
    const wide = Math.exp(Math.min(grown, Math.max(halfWidth, Math.log(device.most_factor))));
    const roof = Math.max(roofs.launch_s, streamed, roofs.flops_per_s && work.flops / roofs.flops_per_s);
    return [Math.max(total / wide, Math.min(low, roof)), total * wide];
  }

  // roofcal.ask.shape_limits.too_small, word for word; null for a shape that is large enough.
  function tooSmall({ provider, recipe, least_sizes: least }, shape) {
    const small = Object.entries(least).find(([axis, size]) => shape[axis] < size);
    return small ? `${provider} takes ${recipe} with ${small[0]} of ${small[1]} and more, got ${shape[small[0]]}` : null;
  }

  // roofcal.ask.shape_limits.refusal, word for word; null for a shape that runs.
  function refusal(option, shape) {
    const { provider, recipe, multiples } = option;
    const refused = Object.entries(multiples).filter(([axis, size]) => shape[axis] % size);
    if (!refused.length) return tooSmall(option, shape);
    const neighbours = (size, multiple) => size < multiple ? `${multiple}`
      : `${size - size % multiple} or ${size - size % multiple + multiple}`;
    const listed = (text) => refused.map(text).join(", ");
    return `${provider} takes ${recipe} with ${listed(([axis, size]) => `${axis} in multiples of ${size}`)}, `
      + `got ${listed(([axis]) => `${axis}=${shape[axis]}`)}; the nearest that works: `
      + listed(([axis, size]) => `${axis}=${neighbours(shape[axis], size)}`);
  }

  const TIMES = { gemm: gemmTime, mixed_gemm: narrowTime, cast: castTime };
  const GROUPS = {
    gemm: gemmGroup, mixed_gemm: (_, { m }) => m <= 64 ? "decode" : "many_tokens", cast: (_, shape) => castGroup(shape) };

  function predict(option, shape, device) {
    const { total, boundBy } = TIMES[option.op](option, shape, device.compute_units);
    const doublings = doublingsOutside(option, shape, device.noticeable_doublings);
    const group = GROUPS[option.op](option, shape);
    const [low, high] = ends(option, total, option.half_widths[group], doublings, leastWork(option, shape), device);
    return { option, total, boundBy, doublings, low, high, unprobed: option.unprobed[group] ?? null };
  }

  // roofcal.ask.shape_limits.memory_refusal; null for what fits.
  function memoryRefusal(option, shape, { dram_bytes: memory, datasheet }) {
    const bytes = leastWork({ ...option, reads: 1 }, shape).bytes;  // a cast that reads twice holds its matrix once
    if (!memory || bytes <= memory) return null;
    return `${option.op} ${option.recipe} of ${Object.entries(shape).map((pair) => pair.join("=")).join(", ")} does not fit ${datasheet}: its `
      + `tensors take ${Math.round(bytes / 1e9).toLocaleString("en")} GB, and the memory has ${Math.round(memory / 1e9)}`;
  }

  // As roofcal.ask.advise: what was measured at this very shape counts, and the prediction stands beside it.
  function counted(answer, shape, device) {
    const predicted = answer.total, [near] = nearest(device, answer.option, shape, 1);
    if (!near || near.distance > 0) return { ...answer, predicted, isMeasured: false };
    const { seconds: total, low, high } = near;
    return { ...answer, total, low, high, predicted, isMeasured: true, doublings: 0, unprobed: null };
  }

  // A product with the casts of x beside it: times and ends of intervals add up, as in roofcal.ask.advise.
  function summed([product, ...casts], shape, device) {
    const { m: rows, k: cols } = shape, outside = Math.max(...[product, ...casts].map(({ doublings }) => doublings ?? 0));
    const parts = [counted(product, shape, device), ...casts.map((cast) => counted(cast, { rows, cols }, device))];
    const sum = (name) => parts.reduce((whole, part) => whole + part[name], 0);
    // The longest part says what the whole is bound by, as in roofcal.ask.advise.
    const ofCasts = parts.slice(1).reduce((whole, part) => whole + part.total, 0);
    return {
      option: product.option, casts: casts.map(({ option }) => option), parts, outside,
      boundBy: ofCasts > parts[0].total ? "casts" : product.boundBy,
      total: sum("total"), low: sum("low"), high: sum("high"), predicted: sum("predicted"),
      isMeasured: parts.every(({ isMeasured }) => isMeasured), doublings: Math.max(...parts.map(({ doublings }) => doublings ?? 0)),
      unprobed: parts.map(({ unprobed }) => unprobed).find(Boolean) ?? null };
  }

  // Every option that runs the shape, the fastest first, and why the others do not. hasCasts: x is cast in
  // each of the ways that are known for an option, else products stand alone. An option for
  // larger shapes is no choice here: it is named only where no option runs, as by roofcal.ask.points.
  function rank(device, shape, hasCasts, options = device.options) {
    const answers = [], refused = [], forLarger = [];
    const cast = { rows: shape.m, cols: shape.k };
    for (const option of options) {
      const ways = (hasCasts ? option.ways : [[]]).map((way) => way.map((place) => device.casts[place]));
      const why = refusal(option, shape) ?? memoryRefusal(option, shape, device) ?? (ways.length ? null : device.without_casts);
      const lacking = ({ recipe, provider }) => `the calibration of ${recipe} by ${provider} lacks a constant of its equation`;
      for (const way of ways.length ? ways : [[]]) {
        const parts = [predict(option, shape, device), ...way.map((one) => predict(one, cast, device))];
        const unknown = parts.find(({ total }) => !Number.isFinite(total));
        const reason = why ?? way.map((one) => memoryRefusal(one, cast, device)).find(Boolean) ?? (unknown && lacking(unknown.option));
        if (!reason) answers.push(summed(parts, shape, device));
        else (tooSmall(option, shape) ? forLarger : refused).push({ option, reason });
      }
    }
    if (!answers.length) refused.push(...forLarger);
    const farthest = Math.min(...answers.map(({ outside }) => outside)) + device.farthest_doublings;
    const isRanked = ({ isMeasured, outside }) => isMeasured || outside <= farthest;
    const ranked = answers.filter(isRanked).sort((a, b) => a.total - b.total);
    answers.filter((answer) => !isRanked(answer)).forEach(({ option, outside }) =>
      refused.push({ option, reason: `${option.recipe} by ${option.provider} lies ${outside.toFixed(1)} doublings outside the probed range` }));
    return { ranked, refused };
  }

  // roofcal.ask.measured.nearest: the nearest settled points of an option, nearest first.
  function nearest(device, option, shape, count) {
    const [options, measured] = option.op === "cast" ? [device.casts, device.measured_casts] : [device.options, device.measured];
    const place = options.indexOf(option), axes = Object.keys(shape), found = [];
    measured.option.forEach((own, row) => {
      if (own !== place) return;
      const point = Object.fromEntries(axes.map((axis) => [axis, measured[axis][row]]));
      const distance = Math.hypot(...axes.map((axis) => Math.log2(point[axis] / shape[axis])));
      found.push({ point, distance, seconds: measured.s[row], low: measured.low_s[row],
        high: measured.high_s[row], predicted: measured.predicted_s[row] });
    });
    return found.sort((a, b) => a.distance - b.distance).slice(0, count);
  }

  return { predict, rank, refusal, memoryRefusal, nearest, leastWork };
})();
