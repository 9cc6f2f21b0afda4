// What the calibrated model says of a shape, and the ranking of linears by it. No equation is here: Python ran them for an example,
// and `equations` of roofcal/report/shape_box.py lists what they did to its sizes, which is done here to those that are asked about.
"use strict";
const productModel = (() => {
  const gcd = (a, b) => { while (b) [a, b] = [b, a % b]; return a; };
  const exponent = (x) => { const two = Math.ceil(Math.log2(x)); return 2 ** two <= x ? two + 1 : two; };  // x < 2^exponent

  const equal = (a, b) => a === b || Number(a) === Number(b);  // a condition is 0 or 1, as in NumPy
  const rint = (x) => x % 1 === 0.5 || x % 1 === -0.5 ? 2 * Math.round(x / 2) : Math.round(x);  // halves to even numbers

  // Steps of numbers, by their names in NumPy. They are done to each number of an array.
  const OF_EACH = {
    add: (a, b) => a + b, subtract: (a, b) => a - b, multiply: (a, b) => a * b, divide: (a, b) => a / b, negative: (a) => -a,
    floor_divide: (a, b) => Math.floor(a / b), remainder: (a, b) => ((a % b) + b) % b, gcd, trunc: Math.trunc,
    ceil: Math.ceil, floor: Math.floor, rint, sqrt: Math.sqrt, minimum: (a, b) => Math.min(a, b), maximum: (a, b) => Math.max(a, b),
    mantissa: (x) => x ? x / 2 ** exponent(x) : 0, exponent: (x) => x ? exponent(x) : 0, ldexp: (a, b) => a * 2 ** b,
    less: (a, b) => a < b, less_equal: (a, b) => a <= b, greater: (a, b) => a > b, greater_equal: (a, b) => a >= b,
    equal, not_equal: (a, b) => !equal(a, b), bitwise_and: (a, b) => a && b, bitwise_or: (a, b) => a || b,
    invert: (a) => !a, where: (isFirst, a, b) => isFirst ? a : b };

  // Steps of whole arrays, by their names in roofcal/report/kit/traces.py. A number stands for an array of equal ones.
  const item = (array, place) => Array.isArray(array) ? array[place] : array;
  const first = (array, isBetter) => [].concat(array).reduce((best, value, place, all) => isBetter(value, all[best]) ? place : best, 0);
  const OF_ALL = {
    item, stack: (...parts) => parts, place: (texts, text) => [].concat(texts).indexOf(text),
    argmin: (array) => first(array, (a, b) => a < b), argmax: (array) => first(array, (a, b) => a > b),
    count_below: (array, value) => [].concat(array).filter((one) => one < value).length };

  // Place of a constant or step -> its value at such sizes; roofcal/report/kit/traces.py says how places are counted.
  function evaluator({ constants, steps }, sizes) {
    const values = new Array(steps.length), known = constants.length;
    const valueAt = (place) => place < known ? constants[place] : values[place - known] ??= done(place - known);
    function done(number) {
      const [name, ...inputs] = steps[number];
      if (name === "size") return sizes[inputs[0]];
      const taken = inputs.map((place) => valueAt(place < known ? place : known + known + number - place)), [a, b, c] = taken;
      if (OF_ALL[name]) return OF_ALL[name](...taken);
      const step = OF_EACH[name], array = taken.find(Array.isArray);
      return array ? array.map((_, at) => step(item(a, at), item(b, at), item(c, at))) : step(a, b, c);
    }
    return valueAt;
  }

  const evaluatorAt = ({ equations }, { m, n, k }) => evaluator(equations, { m, n, k, rows: m, cols: k });

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

  // Python's answer for an option, see `data` of roofcal/report/shape_box.py; at: of an evaluator.
  function predict(option, at) {
    const answer = Object.fromEntries(Object.entries(option.answer).map(([name, place]) => [name, at(place)]));
    return { option, ...answer, unprobed: option.unprobed[answer.group] ?? null };
  }

  // roofcal.ask.shape_limits.memory_refusal; null for what fits.
  function memoryRefusal({ op, recipe, answer }, shape, at, { dram_bytes: memory, datasheet }) {
    const bytes = at(answer.memory);
    if (!memory || bytes <= memory) return null;
    return `${op} ${recipe} of ${Object.entries(shape).map((pair) => pair.join("=")).join(", ")} does not fit ${datasheet}: its `
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
    const { m: rows, k: cols } = shape, outside = Math.max(...[product, ...casts].map(({ doublings }) => doublings));
    const parts = [counted(product, shape, device), ...casts.map((cast) => counted(cast, { rows, cols }, device))];
    const sum = (name) => parts.reduce((whole, part) => whole + part[name], 0);
    // The longest part says what the whole is bound by, as in roofcal.ask.advise.
    const ofCasts = parts.slice(1).reduce((whole, part) => whole + part.total, 0);
    return {
      option: product.option, flops: product.flops, casts: casts.map(({ option }) => option), parts, outside,
      boundBy: ofCasts > parts[0].total ? "casts" : product.boundBy,
      total: sum("total"), low: sum("low"), high: sum("high"), predicted: sum("predicted"),
      isMeasured: parts.every(({ isMeasured }) => isMeasured), doublings: Math.max(...parts.map(({ doublings }) => doublings)),
      unprobed: parts.map(({ unprobed }) => unprobed).find(Boolean) ?? null };
  }

  // Every option that runs the shape, the fastest first, and why the others do not. hasCasts: x is cast in
  // each of the ways that are known for an option, else products stand alone. An option for
  // larger shapes is no choice here: it is named only where no option runs, as by roofcal.ask.points.
  function rank(device, shape, hasCasts, options = device.options) {
    const answers = [], refused = [], forLarger = [];
    const cast = { rows: shape.m, cols: shape.k }, at = evaluatorAt(device, shape);
    for (const option of options) {
      const ways = (hasCasts ? option.ways : [[]]).map((way) => way.map((place) => device.casts[place]));
      const why = refusal(option, shape) ?? memoryRefusal(option, shape, at, device) ?? (ways.length ? null : device.without_casts);
      for (const way of ways.length ? ways : [[]]) {
        const reason = why ?? way.map((one) => memoryRefusal(one, cast, at, device)).find(Boolean)
          ?? [option, ...way].map(({ refused: lacking }) => lacking).find(Boolean);
        if (!reason) answers.push(summed([option, ...way].map((one) => predict(one, at)), shape, device));
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

  return { predict, rank, refusal, memoryRefusal, nearest, evaluatorAt };
})();
