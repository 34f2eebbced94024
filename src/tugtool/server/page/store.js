// All that the page knows: topics as the server sent them, and whether they are live.
// Objects are replaced, never changed, so that a drawing may compare them.

/** Lists whose objects come one by one, and the names that identify an object. */
const KEYS = {
  plan: { steps: ["anchor"], checklist_items: ["step_anchor", "kind", "ordinal"] },
  overview: { plans: ["plan_path"], dashes: ["name"], worktrees: ["path"] },
  review: {},
};
const MOST_EVENTS = 300;
/** So many steps, or clocks, are drawn anew with one frame, the others with the next. */
const MOST_AT_ONCE = 40;

/** @typedef {{data: any, seq: number, index: Record<string, Map<string, number>>}} Topic */
/** @typedef {"opening" | "catching" | "live" | "lost" | "refused"} LinkState */

export class Store {
  constructor() {
    /** @type {Record<string, Topic>} */
    this.topics = {};
    /** @type {any[]} */
    this.events = [];
    /** @type {any} */
    this.words = null;
    this.epoch = "";
    this.seq = 0;
    this.skew = 0;
    this.link = { state: /** @type {LinkState} */ ("opening"), heard: 0, retry: 0, name: "", role: "", server: "", why: "" };
    /** What is being written: the numbers of events that have not arrived yet. @type {number[]} */
    this.saving = [];
    this.frozen = 0;
    /** What is drawn; stays as it is while frozen. */
    this.shown = this.picture();
    this.pending = false;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    /** @type {Set<() => void>} */
    this.tickers = new Set();
    /** Those of this second that are still to come. @type {(() => void)[]} */
    this.ticking = [];
    /** @type {(message: any) => void} */
    this.heardEvents = () => {};
  }

  picture() {
    const topics = Object.fromEntries(Object.entries(this.topics).map(([name, topic]) => [name, portion(this.shown?.topics[name], topic)]));
    return { topics, events: this.events, link: { ...this.link }, saving: this.saving.length };
  }

  /** The server's time; it stands still while nothing is heard, and while frozen. */
  now() {
    if (this.frozen) return this.frozen;
    const live = this.link.state === "live" || this.link.state === "catching";
    return (live || !this.link.heard ? Date.now() : this.link.heard) + this.skew;
  }

  /** @param {string} topic @returns {any} */
  data(topic) {
    return this.shown.topics[topic]?.data ?? null;
  }

  /** Draw again with the next frame; a hidden tab has none. */
  change() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      if (!this.frozen) this.shown = this.picture();
      else this.shown = { ...this.shown, link: { ...this.link }, saving: this.saving.length };
      for (const each of this.listeners) each();
      if (!this.frozen && Object.entries(this.topics).some(([name, topic]) => this.shown.topics[name] !== topic)) this.change();
    });
  }

  /** @param {() => void} listener */
  onChange(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** @param {() => void} ticker */
  onTick(ticker) {
    this.tickers.add(ticker);
    return () => this.tickers.delete(ticker);
  }

  tick() {
    if (document.hidden || this.frozen || this.ticking.length) return;
    this.ticking = [...this.tickers];
    const some = () => {
      for (const each of this.ticking.splice(0, MOST_AT_ONCE)) if (this.tickers.has(each)) each();
      if (this.ticking.length) requestAnimationFrame(some);
    };
    some();
  }

  freeze() {
    this.frozen = this.frozen ? 0 : this.now();
    this.change();
  }

  /** @param {Partial<Store["link"]>} more */
  setLink(more) {
    this.link = { ...this.link, ...more };
    this.change();
  }

  /** Remember a write until its own event has arrived. @param {number} seq */
  save(seq) {
    if (seq > this.seq) this.saving.push(seq);
    this.change();
  }

  /** @param {number} seq */
  reached(seq) {
    if (!(seq > this.seq)) return;
    this.seq = seq;
    this.saving = this.saving.filter((each) => each > seq);
  }

  /** Forget what a replaced record, or a token that ended, had shown. */
  forget() {
    this.topics = {};
    this.events = [];
    this.seq = 0;
    this.saving = [];
  }

  /** @param {string} topic @param {any} data @param {number} seq */
  snapshot(topic, data, seq) {
    this.topics = { ...this.topics, [topic]: { data, seq, index: indexed(topic, data) } };
    this.reached(seq);
  }

  /** @param {{topic: string, seq: number, set: any, gone: any}} message */
  delta({ topic, seq, set, gone }) {
    const old = this.topics[topic];
    if (!old) return;
    const kind = topic.split(":")[0];
    const data = { ...old.data, ...set[kind] };
    const index = { ...old.index };
    for (const [name, key] of Object.entries(KEYS[kind])) {
      if (!set[name] && !gone[name]) continue;
      const lost = new Set((gone[name] ?? []).map((/** @type {any[]} */ each) => each.join("\0")));
      const list = lost.size ? old.data[name].filter((/** @type {any} */ each) => !lost.has(keyOf(each, key))) : old.data[name].slice();
      const places = lost.size ? places_of(list, key) : index[name];
      for (const each of set[name] ?? []) {
        const id = keyOf(each, key);
        const at = places.get(id);
        if (at === undefined) places.set(id, list.push(each) - 1);
        else list[at] = each;
      }
      data[name] = list;
      index[name] = places;
    }
    this.topics = { ...this.topics, [topic]: { data, seq, index } };
    this.reached(seq);
  }

  /** @param {{seq: number, events: any[]}} message */
  addEvents({ seq, events }) {
    const last = this.events.at(-1)?.seq ?? 0;
    const quiet = this.words?.signs_of_life ?? [];
    const fresh = events.filter((each) => each.seq > last && !quiet.includes(each.kind));
    if (fresh.length) this.events = [...this.events, ...fresh].slice(-MOST_EVENTS);
    this.reached(seq);
    if (fresh.length) this.heardEvents(fresh);
  }

  /** What waits for a person, in all. */
  needs() {
    const overview = this.topics.overview?.data;
    return overview ? overview.needs_you.reduce((/** @type {number} */ sum, /** @type {any} */ each) => sum + each.count, 0) : 0;
  }
}

/** The topic with some of the steps that changed since it was drawn; itself if it has no others. @param {Topic | undefined} before @param {Topic} topic */
function portion(before, topic) {
  const { steps } = topic.data;
  const old = before?.data.steps;
  if (before === topic || !steps || old?.length !== steps.length) return topic;
  let left = MOST_AT_ONCE;
  const some = steps.map((/** @type {any} */ step, /** @type {number} */ at) => (old[at] === step || left-- > 0 ? step : old[at]));
  const same = left >= 0 || some.some((/** @type {any} */ step, /** @type {number} */ at) => step.anchor !== steps[at].anchor);
  return same ? topic : { ...topic, data: { ...topic.data, steps: some } };
}

/** @param {any} object @param {string[]} key */
function keyOf(object, key) {
  return key.map((name) => object[name]).join("\0");
}

/** @param {any[]} list @param {string[]} key */
function places_of(list, key) {
  return new Map(list.map((each, at) => [keyOf(each, key), at]));
}

/** @param {string} topic @param {any} data */
function indexed(topic, data) {
  const keys = KEYS[topic.split(":")[0]];
  return Object.fromEntries(Object.entries(keys).map(([name, key]) => [name, places_of(data[name], key)]));
}

export const store = new Store();
