// The keyboard: rows, pages, and what may be done, without a mouse.
import { dialogs, offered } from "./dialog.js";
import { queue } from "./review.js";
import { go, plan as planAt, read, step as stepAt, TABS, withQuery } from "./route.js";
import { store } from "./store.js";

const KEY = "tug.keys";

/** Keys, and what they do: also the help. @type {[string, string][]} */
export const BINDINGS = [
  ["g n", "Now"], ["g r", "Review"], ["g w", "Workers"], ["g l", "Log"],
  ["1 … 6", "the tabs of a plan"],
  ["j k ↑ ↓", "next or previous row"], ["Enter", "open it"], ["Esc", "close"],
  ["[ ]", "previous or next part of the step"],
  ["n N", "next or previous thing that needs you"],
  ["a x d", "accept, reject, diff (Review)"],
  ["p", "pause or resume the plan"], [".", "what may be done with the selected step"],
  ["y", "copy the command that does the same"],
  ["/", "filter"], ["Ctrl-K", "search and go anywhere"],
  ["f", "follow the steps at work"], ["z", "freeze what is shown"], ["t", "theme"], ["?", "this list"],
];

class Keys {
  constructor() {
    this.on = localStorage.getItem(KEY) !== "off";
    this.prefix = "";
    this.following = false;
    /** @type {(name: string) => void} */
    this.show = () => {};
  }

  /** @param {boolean} on */
  set(on) {
    this.on = on;
    if (on) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, "off");
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") return this.done(event, () => this.show("palette"));
    if (event.key === "Escape") return this.escape(event, target);
    const typing = target.matches?.("input:not([type=checkbox]):not([type=radio]), textarea, select");
    if (!this.on || typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const name = this.prefix + event.key;
    this.prefix = "";
    if (event.key === "g") this.prefix = "g ";
    const does = this.table()[name];
    if (does) this.done(event, does);
  }

  /** @param {KeyboardEvent} event @param {() => void} does */
  done(event, does) {
    event.preventDefault();
    does();
  }

  /** @param {KeyboardEvent} event @param {HTMLElement} target */
  escape(event, target) {
    if (document.querySelector("dialog[open]")) return;
    if (target.matches?.("input, textarea")) return target.blur();
    const close = /** @type {HTMLElement | null} */ (document.querySelector(".panel .close"));
    if (close) this.done(event, () => this.closePanel(close));
    else if (read(location).page === "step") go(planAt(read(location).slug));
  }

  /** @param {HTMLElement} close */
  closePanel(close) {
    const step = read(location).step;
    close.click();
    requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector(`[data-step="${CSS.escape(step)}"] [data-row]`))?.focus());
  }

  /** @returns {Record<string, () => void>} */
  table() {
    const route = read(location);
    /** @type {Record<string, () => void>} */
    const table = {
      "g n": () => go("/"), "g r": () => go("/review"), "g w": () => go("/workers"), "g l": () => go("/log"),
      j: () => this.move(1), ArrowDown: () => this.move(1), k: () => this.move(-1), ArrowUp: () => this.move(-1),
      n: () => this.need(1), N: () => this.need(-1),
      "[": () => this.part(-1), "]": () => this.part(1),
      a: () => this.press_action("accept"), x: () => this.press_action("reject"), d: () => click(".case [data-diff] .fold-head, .step [data-diff] .fold-head"),
      p: () => this.pause(), ".": () => this.actions(), y: () => click(".case .decision [data-copy], .step .same [data-copy], .dialog [data-copy], main [data-copy]"),
      "/": () => /** @type {HTMLElement | null} */ (document.querySelector("main input[type=search]"))?.focus() ?? this.show("palette"),
      f: () => this.follow(), z: () => store.freeze(), t: () => click("[data-theme-button]"), "?": () => this.show("help"),
      s: () => route.tab === "time" && go(withQuery({ by: new URLSearchParams(location.search).get("by") === "step" ? "" : "step" }), true),
    };
    if (route.slug) TABS.forEach(([name], at) => (table[String(at + 1)] = () => go(planAt(route.slug, name) + (route.step && route.page === "plan" ? `?s=${encodeURIComponent(route.step)}` : ""))));
    return table;
  }

  /** @param {number} by */
  move(by) {
    const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("main [data-row]")]);
    const current = rows.findIndex((row) => row === document.activeElement);
    const from = current >= 0 ? current : rows.findIndex((row) => row.getAttribute("aria-current") === "true");
    const row = rows[from < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(from + by, 0), rows.length - 1)];
    row?.focus();
    if (row?.hasAttribute("data-select") || document.querySelector(".panel")) row?.click();
  }

  /** @param {number} by */
  need(by) {
    const { overview, review } = store.shown.topics;
    if (!overview || !review) return;
    const every = queue(overview.data, review.data);
    if (!every.length) return;
    const at = every.findIndex((each) => each.id === new URLSearchParams(location.search).get("at"));
    const next = every[at < 0 ? (by > 0 ? 0 : every.length - 1) : (at + by + every.length) % every.length];
    go(`/review?at=${encodeURIComponent(next.id)}`);
  }

  /** @param {number} by */
  part(by) {
    const parts = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".step [data-section]")]);
    const at = parts.findIndex((each) => each === document.activeElement);
    const next = parts[Math.min(Math.max(at + by, 0), parts.length - 1)];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }

  /** @param {string} name */
  press_action(name) {
    click(`.case [data-action="${name}"], .step [data-action="${name}"]`);
  }

  pause() {
    const { slug } = read(location);
    const plan = store.data("overview")?.plans.find((/** @type {any} */ each) => each.slug === slug);
    const [action] = plan ? offered("plan", plan.paused_at ? "paused" : "running") : [];
    if (action) dialogs.ask(action, { plan });
  }

  /** The first button of what may be done; on a row, after opening it. */
  actions() {
    const focused = /** @type {HTMLElement | null} */ (document.activeElement?.closest("[data-row]"));
    if (focused && !document.querySelector(".panel, .case")) focused.click();
    requestAnimationFrame(() => requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector(".step .actions button, .case .actions button"))?.focus()));
  }

  follow() {
    this.following = !this.following;
    store.change();
    this.follow_now();
  }

  /** Show the last step at work, if following is on. */
  follow_now() {
    const route = read(location);
    if (!this.following || !route.slug) return;
    const plan = store.data("overview")?.plans.find((/** @type {any} */ each) => each.slug === route.slug);
    const last = plan?.claims.reduce((/** @type {any} */ a, /** @type {any} */ b) => (!a || b.claimed_at > a.claimed_at ? b : a), null);
    if (!last || last.anchor === this.last) return;
    this.last = last.anchor;
    if (route.step) go(stepAt(route.slug, last.anchor), true);
    document.querySelector(`main [data-step="${CSS.escape(last.anchor)}"]`)?.scrollIntoView({ block: "center" });
  }
}

/** @param {string} selector */
function click(selector) {
  /** @type {HTMLElement | null} */ (document.querySelector(selector))?.click();
}

export const keys = new Keys();
