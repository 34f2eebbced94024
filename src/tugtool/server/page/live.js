// The connection: opens it, goes on where it stopped, and says honestly when it is lost.
import { get, openLive, Refusal } from "./api.js";
import { store } from "./store.js";

const ALWAYS = ["overview", "review", "events"];
/** So many plans are kept up to date; the one seen longest ago is dropped. */
const MOST_PLANS = 6;
const SHORTEST_WAIT = 500;
const LONGEST_WAIT = 15_000;

class Live {
  constructor() {
    /** @type {WebSocket | null} */
    this.socket = null;
    /** @type {string[]} */
    this.plans = [];
    this.settled = false;
    this.wait = SHORTEST_WAIT;
    this.patience = 20_000;
    this.timer = 0;
  }

  /** Begin again, with another token. */
  restart() {
    store.forget();
    store.link.heard = 0;
    this.since = "";
    if (this.started) this.open();
    else this.start();
    this.words();
  }

  /** The words of the page; asked for until they are there. */
  async words() {
    try {
      store.words = await get("words");
      store.change();
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) store.setLink({ state: "refused", why: error.message });
      else setTimeout(() => this.words(), 1000);
    }
  }

  /** Begin. A plan in the address is asked for at once, under its usual key. @param {string} [slug] */
  start(slug) {
    this.started = true;
    if (slug) this.plans = [`plan:${slug.includes("/") ? slug : `.tugtool/tugplan-${slug}.md`}`];
    setInterval(() => this.look(), 1000);
    addEventListener("online", () => this.again());
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
    this.open();
  }

  /** Notice silence: after sleep or without a network no close comes. */
  look() {
    const { state, heard, retry } = store.link;
    const now = Date.now();
    if ((state === "live" || state === "catching") && now - heard > this.patience) {
      this.lose("The server has been silent.");
    } else if (state === "lost" && now >= retry) {
      this.open();
    }
    store.tick();
  }

  again() {
    if (store.link.state === "lost") this.open();
  }

  topics() {
    return [...ALWAYS, ...this.plans];
  }

  /** Watch a plan from now on. @param {string} key */
  watch(key) {
    const topic = `plan:${key}`;
    const others = this.plans.filter((each) => each !== topic);
    if (others.length === this.plans.length) this.send("watch", [topic]);
    this.plans = [...others, topic];
    while (this.plans.length > MOST_PLANS) {
      const dropped = /** @type {string} */ (this.plans.shift());
      this.send("unwatch", [dropped]);
      const { [dropped]: _, ...rest } = store.topics;
      store.topics = rest;
    }
  }

  /** @param {string} type @param {string[]} topics */
  send(type, topics) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ type, topics }));
  }

  open() {
    this.close();
    const known = this.topics().every((topic) => topic.startsWith("events") || store.topics[topic]);
    const since = known && this.since ? this.since : "";
    this.resumed = Boolean(since);
    this.settled = false;
    store.setLink({ state: store.link.heard ? "lost" : "opening", retry: Date.now() + this.patience, why: store.link.why });
    const socket = openLive(this.topics(), since);
    this.socket = socket;
    socket.onmessage = (event) => socket === this.socket && this.hear(JSON.parse(event.data));
    socket.onclose = (event) => socket === this.socket && this.closed(event.code);
  }

  close() {
    const socket = this.socket;
    this.socket = null;
    if (socket) socket.close();
  }

  /** @param {string} why @param {number} [wait] */
  lose(why, wait) {
    this.close();
    const rest = wait ?? this.wait;
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    store.setLink({ state: "lost", why, retry: Date.now() + rest + Math.random() * 300 });
  }

  /** @param {number} code */
  async closed(code) {
    if (code === 4003 || code === 4029) return this.lose("The server refused the connection.", LONGEST_WAIT);
    this.lose(store.link.state === "lost" ? store.link.why : "The connection ended.");
    try {
      await get("whoami");
    } catch (error) {
      if (error instanceof Refusal && (error.status === 401 || error.status === 403)) {
        store.forget();
        store.setLink({ state: "refused", why: error.message });
      }
    }
  }

  /** @param {any} said */
  hear(said) {
    const now = Date.now();
    store.link.heard = now;
    const take = this[`take_${said.type}`];
    if (take) take.call(this, said);
    if (said.at) store.skew = Date.parse(said.at) - now;
    if (this.settled && said.seq && said.type !== "hello") this.since = `${store.epoch}.${said.seq}`;
    store.change();
  }

  take_hello(/** @type {any} */ said) {
    if (store.epoch && store.epoch !== said.epoch) store.forget();
    store.epoch = said.epoch;
    this.settled = false;
    this.since = "";
    this.patience = said.ping_seconds * 1000 + 5000;
    const { name, role, server } = said;
    store.setLink({ state: "catching", name, role, server, why: "" });
    if (!store.events.length) this.readEvents();
  }

  take_snapshot(/** @type {any} */ said) {
    store.snapshot(said.topic, said.data, said.seq);
  }

  take_delta(/** @type {any} */ said) {
    store.delta(said);
  }

  take_events(/** @type {any} */ said) {
    store.addEvents(said);
  }

  take_reset(/** @type {any} */ said) {
    this.settled = false;
    if (said.topic.startsWith("events")) {
      store.events = [];
      this.readEvents();
    }
  }

  take_ping(/** @type {any} */ said) {
    this.settled = true;
    this.wait = SHORTEST_WAIT;
    store.reached(said.seq);
    if (store.link.state !== "live") store.setLink({ state: "live", why: "" });
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send('{"type": "pong"}');
  }

  take_refused(/** @type {any} */ said) {
    if (!said.topic) return;
    this.plans = this.plans.filter((each) => each !== said.topic);
    const data = { refused: said.message };
    store.topics = { ...store.topics, [said.topic]: { data, seq: 0, index: {} } };
  }

  take_bye(/** @type {any} */ said) {
    this.lose(`The server says: ${said.reason}.`, said.retry_ms);
  }

  async readEvents() {
    const { events } = await get("events", { limit: 60, quiet: true }).catch(() => ({ events: [] }));
    const known = store.events[0]?.seq ?? Infinity;
    store.events = [...events.filter((/** @type {any} */ each) => each.seq < known), ...store.events];
    store.change();
  }
}

export const live = new Live();
