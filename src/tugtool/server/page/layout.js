// Where steps are drawn. `rail`: a row for each step in the plan's order, what it needs as lanes at
// its left. `layered`: a column for each wave. Both take steps with `anchor` and `needs`.

/** @typedef {{anchor: string, needs: string[]}} Node */
/** @typedef {{x: number, y: number}} Point */

/** The needs between top-level steps, as pairs. @param {Node[]} steps @returns {[string, string][]} */
export function edges(steps) {
  const known = new Set(steps.map((step) => step.anchor));
  return steps.flatMap((step) => {
    const needs = step.needs.filter((need) => known.has(need) && need !== step.anchor);
    return needs.map((need) => /** @type {[string, string]} */ ([need, step.anchor]));
  });
}

/** The wave of each step: one more than the last wave of what it needs. @param {Node[]} steps */
export function waves(steps) {
  const links = edges(steps);
  const needs = new Map(steps.map((step) => [step.anchor, /** @type {string[]} */ ([])]));
  for (const [from, to] of links) needs.get(to)?.push(from);
  /** @type {Map<string, number>} */
  const wave = new Map();
  for (const step of steps) {
    const stack = [step.anchor]; // Not recursive: a chain of 10,000 steps must not overflow.
    while (stack.length) {
      const top = stack[stack.length - 1];
      const open = (needs.get(top) ?? []).filter((need) => !wave.has(need));
      if (open.length && stack.length <= steps.length) {
        stack.push(...open);
        continue;
      }
      stack.pop();
      wave.set(top, 1 + Math.max(-1, ...(needs.get(top) ?? []).map((need) => wave.get(need) ?? -1)));
    }
  }
  return wave;
}

/**
 * Lanes: a step keeps its lane until its last dependent. Beyond `most` lanes the rest is counted.
 * @param {Node[]} steps @param {number} most
 */
export function rail(steps, most) {
  const links = edges(steps);
  const place = new Map(steps.map((step, at) => [step.anchor, at]));
  const inOrder = links.every(([from, to]) => place.get(from) < place.get(to));
  const wave = inOrder ? null : waves(steps);
  const ordered = wave ? [...steps].sort((a, b) => wave.get(a.anchor) - wave.get(b.anchor)) : steps;
  const row = new Map(ordered.map((step, at) => [step.anchor, at]));
  const last = new Map();
  const into = new Map(steps.map((step) => [step.anchor, /** @type {string[]} */ ([])]));
  for (const [from, to] of links) {
    last.set(from, Math.max(last.get(from) ?? -1, row.get(to)));
    into.get(to)?.push(from);
  }
  /** Lane -> the row until which it is taken. @type {number[]} */
  const taken = [];
  const lane = new Map();
  ordered.forEach((step, at) => {
    const own = (into.get(step.anchor) ?? []).map((need) => lane.get(need)).find((each) => taken[each] <= at);
    const free = taken.findIndex((until) => until < at);
    const chosen = own ?? (free < 0 ? taken.length : free);
    lane.set(step.anchor, chosen);
    taken[chosen] = last.get(step.anchor) ?? at;
  });
  const lanes = Math.min(taken.length, most);
  const shown = (/** @type {string} */ anchor) => lane.get(anchor) < most;
  const beyond = new Map();
  for (const [from, to] of links) if (!shown(from) || !shown(to)) beyond.set(to, (beyond.get(to) ?? 0) + 1);
  return {
    order: ordered,
    rows: ordered.map((step) => ({ anchor: step.anchor, lane: Math.min(lane.get(step.anchor), most), beyond: beyond.get(step.anchor) ?? 0 })),
    links: links.filter(([from, to]) => shown(from) && shown(to)).map(([from, to]) => ({
      from, to, lane: lane.get(from), row: row.get(from), toLane: lane.get(to), toRow: row.get(to),
    })),
    lanes: lanes + (taken.length > most ? 1 : 0),
  };
}

/** A line down its own lane that bends into the step that needs it. @param {any} link @param {(lane: number) => number} x @param {(row: number) => number} y @param {number} height */
export function bend(link, x, y, height) {
  const [x1, y1, x2, y2] = [x(link.lane), y(link.row), x(link.toLane), y(link.toRow)];
  if (x1 === x2) return `M${x1} ${y1}V${y2}`;
  const turn = Math.max(y1, y2 - height);
  const half = (turn + y2) / 2;
  return `M${x1} ${y1}V${turn}C${x1} ${half} ${x2} ${half} ${x2} ${y2}`;
}

const SWEEPS = 12;
const PULLS = 8;
const BEND = 8;

/**
 * Waves as columns; crossings are made few by ordering each column after its neighbours.
 * @param {Node[]} steps @param {{w: number, h: number, gapX: number, gapY: number}} size
 */
export function layered(steps, { w, h, gapX, gapY }) {
  const wave = waves(steps);
  const links = edges(steps);
  const columns = new Columns(wave, links);
  const best = columns.ordered();
  const y = columns.pulled(best, h, gapY);
  const top = Math.min(...steps.map((step) => y.get(step.anchor))) - h / 2;
  const at = (/** @type {string} */ name) => ({ x: columns.of.get(name) * (w + gapX), y: y.get(name) - top });
  const bottom = Math.max(...steps.map((step) => y.get(step.anchor))) - top + h / 2;
  return {
    nodes: steps.map((step) => ({ anchor: step.anchor, ...at(step.anchor) })),
    paths: columns.chains.map((chain, n) => ({ from: links[n][0], to: links[n][1], d: curve(chain.map(at), w) })),
    waves: best.length,
    width: best.length * (w + gapX) - gapX,
    height: bottom,
  };
}

/** Leaves at the right side, arrives at the left. @param {Point[]} points @param {number} w */
function curve(points, w) {
  const first = points[0];
  let [x, y] = [first.x + w, first.y];
  let d = `M${x} ${y}`;
  points.slice(1).forEach((point, n) => {
    const middle = (x + point.x) / 2;
    d += `C${middle} ${y} ${middle} ${point.y} ${point.x} ${point.y}`;
    [x, y] = [point.x, point.y];
    if (n < points.length - 2) {
      d += `H${point.x + w}`;
      x += w;
    }
  });
  return d;
}

class Columns {
  /** @param {Map<string, number>} wave @param {[string, string][]} links */
  constructor(wave, links) {
    /** @type {string[][]} */
    this.columns = [];
    /** @type {Map<string, number>} */
    this.of = new Map();
    /** @type {Map<string, string[]>} */
    this.down = new Map();
    /** @type {Map<string, string[]>} */
    this.up = new Map();
    for (const [anchor, column] of wave) this.put(anchor, column);
    this.chains = links.map(([from, to], n) => this.chain(from, to, n));
  }

  /** @param {string} name @param {number} column */
  put(name, column) {
    (this.columns[column] ??= []).push(name);
    this.of.set(name, column);
    this.down.set(name, []);
    this.up.set(name, []);
  }

  /** A long need gets a bend in every wave that it passes. @param {string} from @param {string} to @param {number} n */
  chain(from, to, n) {
    const chain = [from];
    for (let column = this.of.get(from) + 1; column < this.of.get(to); column++) {
      const name = `\0${n}.${column}`;
      this.put(name, column);
      chain.push(name);
    }
    chain.push(to);
    chain.slice(1).forEach((each, at) => {
      this.down.get(chain[at])?.push(each);
      this.up.get(each)?.push(chain[at]);
    });
    return chain;
  }

  ordered() {
    let best = this.columns.map((column) => [...column]);
    let least = this.crossings(best);
    const now = best.map((column) => [...column]);
    for (let sweep = 0; sweep < SWEEPS && least; sweep++) {
      const forward = sweep % 2 === 0;
      const order = now.map((_, at) => (forward ? at : now.length - 1 - at));
      for (const at of order.slice(1)) this.sort(now, at, forward);
      const found = this.crossings(now);
      if (found < least) [least, best] = [found, now.map((column) => [...column])];
    }
    return best;
  }

  /** Order a column by the middle of its neighbours. @param {string[][]} columns @param {number} at @param {boolean} forward */
  sort(columns, at, forward) {
    const place = new Map(columns[at + (forward ? -1 : 1)].map((name, n) => [name, n]));
    const near = forward ? this.up : this.down;
    const keyed = columns[at].map((name, n) => {
      const found = (near.get(name) ?? []).map((each) => place.get(each) ?? 0);
      const middle = found.length ? found.reduce((a, b) => a + b) / found.length : n;
      return { middle, n, name };
    });
    columns[at] = keyed.sort((a, b) => a.middle - b.middle || a.n - b.n).map((each) => each.name);
  }

  /** How many links cross, counted with a tree of sums. @param {string[][]} columns */
  crossings(columns) {
    let found = 0;
    for (let at = 1; at < columns.length; at++) {
      const place = new Map(columns[at].map((name, n) => [name, n + 1]));
      const sums = new Int32Array(columns[at].length + 1);
      let seen = 0;
      for (const name of columns[at - 1]) {
        const ends = (this.down.get(name) ?? []).map((each) => place.get(each) ?? 1);
        for (const end of ends) {
          let below = 0;
          for (let i = end; i > 0; i -= i & -i) below += sums[i];
          found += seen - below;
        }
        for (const end of ends) {
          for (let i = end; i < sums.length; i += i & -i) sums[i]++;
          seen++;
        }
      }
    }
    return found;
  }

  /** Heights: each is pulled towards its neighbours, and the order stays. @param {string[][]} columns @param {number} h @param {number} gap */
  pulled(columns, h, gap) {
    const y = new Map();
    const room = (/** @type {string} */ a, /** @type {string} */ b) => (tall(a, h) + tall(b, h)) / 2 + gap;
    for (const column of columns) {
      column.forEach((name, n) => y.set(name, n ? y.get(column[n - 1]) + room(column[n - 1], name) : tall(name, h) / 2));
    }
    for (let pull = 0; pull < PULLS; pull++) {
      for (const column of pull % 2 ? [...columns].reverse() : columns) this.pull(column, y, room);
    }
    // No column leaves the band of the tallest one: a long plan would sink from wave to wave.
    const ends = columns.map((column) => [y.get(column[0]), y.get(column[column.length - 1])]);
    const [top, bottom] = ends.reduce((most, each) => (each[1] - each[0] > most[1] - most[0] ? each : most));
    columns.forEach((column, n) => {
      const shift = Math.max(top - ends[n][0], 0) + Math.min(bottom - ends[n][1], 0);
      // On lines as far apart as two bends, of which a box takes three: what is nearly level is level.
      for (const name of column) y.set(name, top + Math.round((y.get(name) + shift - top) / (BEND + gap)) * (BEND + gap));
    });
    return y;
  }

  /** @param {string[]} column @param {Map<string, number>} y @param {(a: string, b: string) => number} room */
  pull(column, y, room) {
    const want = column.map((name) => {
      const near = [...(this.up.get(name) ?? []), ...(this.down.get(name) ?? [])];
      return near.length ? near.reduce((sum, each) => sum + y.get(each), 0) / near.length : y.get(name);
    });
    const low = [...want];
    const high = [...want];
    for (let n = 1; n < column.length; n++) low[n] = Math.max(want[n], low[n - 1] + room(column[n - 1], column[n]));
    for (let n = column.length - 2; n >= 0; n--) high[n] = Math.min(want[n], high[n + 1] - room(column[n], column[n + 1]));
    column.forEach((name, n) => y.set(name, (low[n] + high[n]) / 2));
    for (let n = 1; n < column.length; n++) {
      y.set(column[n], Math.max(y.get(column[n]), y.get(column[n - 1]) + room(column[n - 1], column[n])));
    }
  }
}

/** @param {string} name @param {number} h */
function tall(name, h) {
  return name.startsWith("\0") ? BEND : h;
}
