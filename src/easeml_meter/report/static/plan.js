// The planner in a browser: the inequality of stats/planning.py for losses of 0 or 1 and one
// tolerance for all bands. Every name and every bound is as in stats/binomial.py, tails.py,
// feedback.py, counting.py and draws.py, which have the proofs; a test compares the numbers.
"use strict";

const Plan = (() => {
  const MARGIN = 1e-12;
  const DRAWS = 10n ** 6n;
  const MOST_LABELS = 1e15;
  const MOST_STEPS = 1e9;
  const MOST_WALK = 10000;
  const MOST_WORK = 2000000;
  const LONGEST_PLAIN = 1000;
  const DEFAULT_EDGES = [0.02, 0.05, 0.1, 0.2];
  const SMALLEST_SEARCHED = 5e-4;
  const MOST_SEARCHED = 100000;

  class Impossible extends Error {}

  // --- Numbers as they are written, as whole multiples of 10^-30 ---

  const SCALE = 30;

  function written(value) {
    const [mantissa, exponent = "0"] = String(value).toLowerCase().split("e");
    const [whole, part = ""] = mantissa.split(".");
    const places = SCALE + Number(exponent) - part.length;
    if (places < 0) throw new Impossible(`${value} has too many digits`);
    return BigInt(whole + part) * 10n ** BigInt(places);
  }

  function ceilDivide(first, second) {
    return (first + second - 1n) / second;
  }

  // Six digits, rounded up: a larger tolerance is easier to promise.
  function atMost(value) {
    let found = Number(value.toPrecision(6));
    if (written(found) < written(value)) {
      const digit = 10 ** (Math.floor(Math.log10(value)) - 5);
      found = Number((found + digit).toPrecision(6));
    }
    return found;
  }

  // --- Tails of the binomial distribution ---

  // Nodes and weights of Gauss and Legendre on [0, 1], by Newton's method.
  const [NODES, WEIGHTS] = (() => {
    const count = 48;
    const nodes = [], weights = [];
    for (let i = 1; i <= count; i++) {
      let x = Math.cos((Math.PI * (i - 0.25)) / (count + 0.5)), slope = 0;
      for (let round = 0; round < 100; round++) {
        let before = 1, here = x;
        for (let k = 2; k <= count; k++) {
          [before, here] = [here, ((2 * k - 1) * x * here - (k - 1) * before) / k];
        }
        slope = (count * (x * here - before)) / (x * x - 1);
        const step = here / slope;
        x -= step;
        if (Math.abs(step) < 1e-16) break;
      }
      nodes.push((x + 1) / 2);
      weights.push(1 / ((1 - x * x) * slope * slope));
    }
    return [nodes, weights];
  })();

  const STIRLING_SMALL = (() => {
    const found = [0];
    let factorial = 1;
    for (let k = 1; k < 16; k++) {
      factorial *= k;
      const formula = (k + 0.5) * Math.log(k) - k + 0.5 * Math.log(2 * Math.PI);
      found.push(Math.log(factorial) - formula);
    }
    return found;
  })();

  function stirling(k) {
    if (k < 16) return STIRLING_SMALL[k];
    const square = k * k;
    return (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / square) / square) / square) / k;
  }

  function logDensity(labels, j, mean) {
    const rest = labels - j, distance = j - mean;
    const deviance = j * Math.log1p(-distance / j);
    if (rest <= 0) return deviance;
    return deviance + rest * Math.log1p(distance / rest)
      + 0.5 * Math.log(labels / (2 * Math.PI * j * rest))
      + stirling(labels) - stirling(j) - stirling(rest);
  }

  function tailRatio(labels, j, mean) {
    const p = mean / labels, odds = p / (1 - p), rest = labels - j;
    const slope = (j - mean) / (1 - p), curvature = (rest * odds) / (1 - p);
    let reach = 80 / (slope + Math.sqrt(slope * slope + 80 * curvature));
    const depth = j * reach - rest * Math.log1p(-odds * Math.expm1(-reach));
    reach *= Math.max(1, 40 / depth);
    let sum = 0;
    for (let i = 0; i < NODES.length; i++) {
      const u = reach * NODES[i];
      sum += WEIGHTS[i] * Math.exp(rest * Math.log1p(-odds * Math.expm1(-u)) - j * u);
    }
    return j * reach * sum;
  }

  // The p at which kl(p + eps, p) is smallest, by bisection on its derivative.
  function worstTrueLoss(tolerance) {
    let low = 0, high = 1 - tolerance;
    for (;;) {
      const p = (low + high) / 2;
      if (!(low < p && p < high)) return p;
      const rest = 1 - p - tolerance;
      const slope = rest > 0 ? Math.log1p(tolerance / p) + Math.log1p(tolerance / rest) : Infinity;
      if (slope < tolerance / (p * (1 - p))) low = p;
      else high = p;
    }
  }

  function logChernoff(labels, p, tolerance) {
    const q = Math.min(p + tolerance, 1);
    const rest = q < 1 ? (1 - q) * Math.log1p(-tolerance / (1 - p)) : 0;
    const value = -labels * (q * Math.log1p(tolerance / p) + rest);
    return value + MARGIN * (1 + Math.abs(value)) + 1e-15 * labels * tolerance;
  }

  function worstUpperTail(labels, tolerance, lowest, highest) {
    const shift = labels * tolerance;
    lowest = Math.max(lowest, Math.floor(shift) + 1);
    if (lowest > highest) return -Infinity;
    const concave = (labels + 1) * tolerance - 1 >= Math.sqrt(labels + 1);
    if (!concave && tolerance < SMALLEST_SEARCHED && highest - lowest > MOST_SEARCHED) {
      return logChernoff(labels, worstTrueLoss(tolerance), tolerance);
    }
    const split = concave ? 32 : 8;
    let width = Math.max(1, Math.floor((highest - lowest + 1) / 64));
    let first = [];
    for (let j = lowest; j <= highest; j += width) first.push(j);
    let best = -Infinity, bestJ = lowest;
    for (;;) {
      const ratios = first.map((j) => tailRatio(labels, j, j - shift));
      const values = first.map((j, i) => logDensity(labels, j, j - shift) + Math.log(ratios[i]));
      let at = 0;
      values.forEach((value, i) => { if (value > values[at]) at = i; });
      if (values[at] > best) [best, bestJ] = [values[at], first[at]];
      if (width === 1) break;
      let kept = first.slice(Math.max(at - 1, 0), at + 1);
      if (!concave) {
        kept = first.filter((j, i) => {
          const mean = j - shift, last = Math.min(j + width - 1, highest);
          const up = last / (mean * tailRatio(labels, last, mean));
          const odds = (j * (labels - mean)) / ((labels - j + 1) * mean);
          const rise = Math.max(0, up - Math.log1p(odds / ratios[i]));
          return values[i] + (last - j) * rise >= best;
        });
      }
      const finer = Math.max(1, Math.floor(width / split));
      first = kept.flatMap((j) => {
        const found = [];
        for (let at = 0; at < width && j + at <= highest; at += finer) found.push(j + at);
        return found;
      });
      width = finer;
    }
    const rounding = (1e-15 * shift * bestJ) / (bestJ - shift);
    return best + MARGIN * (1 + Math.abs(best)) + rounding;
  }

  function logSum(logs) {
    const top = Math.max(...logs);
    if (top === -Infinity) return top;
    return top + Math.log(logs.reduce((sum, each) => sum + Math.exp(each - top), 0));
  }

  function errorsBelow(ceiling, labels) {
    return Number((written(ceiling) * BigInt(labels)) / 10n ** BigInt(SCALE));
  }

  function logTail(labels, tolerance, ceiling, promised) {
    if (labels <= 0) return 0;
    const hoeffding = Math.LN2 - 2 * labels * tolerance ** 2;
    const value = Math.min(0, hoeffding + MARGIN * (1 + Math.abs(hoeffding)));
    if (ceiling === null) {
      return Math.min(value, Math.LN2 + worstUpperTail(labels, tolerance, 0, labels));
    }
    const most = errorsBelow(ceiling, labels);
    return Math.min(value, logSum([
      worstUpperTail(labels, tolerance, 0, Math.min(most + (promised ? 1 : 0), labels)),
      worstUpperTail(labels, tolerance, labels - most, labels),
    ]));
  }

  // The tail with a ceiling jumps up where one more error fits below it.
  function logTailFrom(labels, tolerance, ceiling, promised) {
    const here = logTail(labels, tolerance, ceiling, promised);
    if (ceiling === null) return here;
    const errors = BigInt(errorsBelow(ceiling, labels) + 1) * 10n ** BigInt(SCALE);
    const next = Number(ceilDivide(errors, written(ceiling)));
    return Math.max(here, logTail(next, tolerance, ceiling, promised));
  }

  // --- How many models there could be ---

  function merges(meter) {
    return meter.ceiling !== null && !meter.incremental;
  }

  // The largest number of bands that reach the same true gap, while no promise is broken.
  function possibleBands(meter) {
    if (meter.drawn !== null) return 1;
    const eps = written(meter.tolerance);
    const ends = [0, ...meter.edges, 1].map(written);
    const ranges = ends.slice(1).map((upper, i) => {
      const lower = ends[i] - eps;
      return [lower > 0n ? lower : 0n, upper + eps];
    });
    const most = Math.max(...ranges.map(([at]) =>
      ranges.filter(([lower, upper]) => lower <= at && at < upper).length));
    return merges(meter) ? Math.max(2, most) : most;
  }

  function logWhole(count) {
    if (count <= 0n) return -Infinity;
    const text = count.toString(2), shift = Math.max(0, text.length - 900);
    return Math.log(Number(count >> BigInt(shift))) + shift * Math.LN2;
  }

  function combinations(n, k) {
    let found = 1n;
    for (let i = 1n; i <= BigInt(k); i++) found = (found * (BigInt(n) - BigInt(k) + i)) / i;
    return k > n ? 0n : found;
  }

  function logGeometric(ratio, terms) {
    if (ratio === 1) return Math.log(terms);
    const power = terms * Math.log1p(ratio - 1);
    return power + Math.log(-Math.expm1(-power)) - Math.log(ratio - 1);
  }

  // Histories of an incremental meter, step by step: yields their number up to each length.
  function* walk(bands, possible, silent) {
    let counts = [1n, ...Array(bands - 1).fill(0n)], total = 0n;
    for (;;) {
      total += counts.reduce((sum, each) => sum + each, 0n);
      yield total;
      const next = Array(bands).fill(0n);
      counts.forEach((count, at) => {
        for (let to = at; to < Math.min(at + possible, bands); to++) {
          next[to] += count * (to === at ? BigInt(1 + silent) : 1n);
        }
      });
      counts = next;
    }
  }

  function hasClosedForm(meter) {
    return !meter.incremental || meter.ceiling === null;
  }

  function mostSteps(meter) {
    const bands = meter.edges.length + 1;
    return Math.min(MOST_WALK, Math.floor(MOST_WORK / (bands * (bands + 1))));
  }

  function logModels(meter, steps, possible) {
    if (!meter.incremental) {
      let answers = possible;
      if (meter.drawn !== null) {
        const edges = ceilDivide(2n * written(meter.tolerance) * DRAWS, written(meter.drawn));
        answers += Number(edges) / Number(DRAWS);
      }
      return logGeometric(answers, steps);
    }
    const bands = meter.edges.length + 1, silent = meter.ceiling === null ? 0 : 1;
    if (!silent && steps > LONGEST_PLAIN && possible > 2) possible = bands;
    if (!silent && (possible === Math.min(2, bands) || possible === bands)) {
      let total = BigInt(steps);
      for (let k = 2; k <= bands; k++) {
        total += combinations(possible < bands ? steps : k + steps - 2, k);
      }
      return logWhole(total);
    }
    if (steps > mostSteps(meter)) throw new Impossible(`at most ${mostSteps(meter)} answers`);
    let length = 0;
    for (const total of walk(bands, possible, silent)) {
      if (++length === steps) return logWhole(total);
    }
    return 0;
  }

  // --- The three questions ---

  // Regula falsi, with a step of bisection whenever that shrinks the bracket too slowly.
  function smallest(excess, highest) {
    let low = 0, high = highest, atLow = excess(low), atHigh = excess(high);
    while (high - low > 1) {
      const width = high - low;
      const guess = atLow > 0 && atHigh < 0
        ? low + Math.ceil((width * atLow) / (atLow - atHigh)) : low;
      for (const probe of [guess, guess - 1, Math.floor((low + high) / 2)]) {
        if (!(low < probe && probe < high)) continue;
        const found = excess(probe);
        if (found <= 0) [high, atHigh] = [probe, found];
        else [low, atLow] = [probe, found];
        if (high - low < Math.floor(width / 8)) break;
      }
    }
    return high;
  }

  function requiredLabels(meter) {
    const budget = Math.log(meter.delta);
    const count = logModels(meter, meter.steps, possibleBands(meter));
    const needed = (count + Math.LN2 - budget) * (1 + 1e-11) + 1e-11;
    const highest = Math.ceil(needed / (2 * meter.tolerance ** 2)) + 1;
    if (highest > MOST_LABELS) throw new Impossible("over 10^15 labels: take a larger tolerance");
    return smallest(
      (labels) => count - budget
        + logTailFrom(labels, meter.tolerance, meter.ceiling, merges(meter)), highest);
  }

  function supportedSteps(meter, labels) {
    const possible = possibleBands(meter);
    const left = Math.log(meter.delta)
      - logTailFrom(labels, meter.tolerance, meter.ceiling, merges(meter));
    const holds = (steps) => logModels(meter, steps, possible) <= left;
    if (!holds(1)) {
      const needed = requiredLabels({ ...meter, steps: 1 });
      throw new Impossible(`too few labels for one answer: ${needed.toLocaleString("en")} needed`);
    }
    let most = 1;
    if (!hasClosedForm(meter)) {
      let steps = 0;
      for (const total of walk(meter.edges.length + 1, possible, 1)) {
        steps++;
        if (steps > mostSteps(meter) || logWhole(total) > left) break;
        most = steps;
      }
      return most;
    }
    let above = 2;
    while (above <= MOST_STEPS && holds(above)) [most, above] = [above, 2 * above];
    above = Math.min(above, MOST_STEPS + 1);
    while (above - most > 1) {
      const middle = Math.floor((most + above) / 2);
      if (holds(middle)) most = middle;
      else above = middle;
    }
    return most;
  }

  function reachable(meter, labels, possible) {
    const budget = Math.log(meter.delta);
    const counted = meter.drawn === null ? logModels(meter, meter.steps, possible) : null;
    const enough = (tolerance) => {
      const count = counted ?? logModels({ ...meter, tolerance }, meter.steps, possible);
      return count + logTailFrom(labels, tolerance, meter.ceiling, merges(meter)) <= budget;
    };
    let low = 0, high = 1 - 1e-9;
    if (!enough(high)) return null;
    while (high - low > 1e-7 * high) {
      const middle = (low + high) / 2;
      if (enough(middle)) high = middle;
      else low = middle;
    }
    return Math.min(atMost(high), 1 - 1e-12);
  }

  function reachableTolerance(meter, labels) {
    const bands = meter.drawn === null ? meter.edges.length + 1 : 1;
    for (let possible = 1; possible <= Math.max(2, bands); possible++) {
      const tolerance = reachable(meter, labels, possible);
      if (tolerance !== null && possibleBands({ ...meter, tolerance }) <= possible) {
        return tolerance;
      }
    }
    throw new Impossible("too few labels for so many answers, at any tolerance");
  }

  function defaultEdges(tolerance) {
    const apart = 2n * written(tolerance);
    for (let first = 0; first < DEFAULT_EDGES.length; first++) {
      const ends = [0, ...DEFAULT_EDGES.slice(first)].map(written);
      if (ends.slice(1).every((end, i) => end - ends[i] >= apart)) {
        return DEFAULT_EDGES.slice(first);
      }
    }
    return DEFAULT_EDGES.slice(-1);
  }

  // With the default bands: the most that the tolerance reached leaves room for.
  function reachableWithDefaultBands(meter, labels) {
    for (let first = 0; ; first++) {
      const edges = DEFAULT_EDGES.slice(first);
      const tolerance = reachableTolerance({ ...meter, edges }, labels);
      if (edges.length <= defaultEdges(tolerance).length || edges.length === 1) {
        return { ...meter, edges, tolerance };
      }
    }
  }

  return {
    Impossible, defaultEdges, possibleBands, reachableTolerance, reachableWithDefaultBands,
    requiredLabels, supportedSteps,
  };
})();
