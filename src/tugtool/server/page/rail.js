// The rail: a row for each step with its whole title, and the lanes of what needs what.
import { duration, between, many, Since, tally, worker } from "./format.js";
import { html, Pure } from "./html.js";
import { bend, rail } from "./layout.js";
import { numbers, Sign } from "./parts.js";
import { go, narrow, step as stepAt, withQuery } from "./route.js";
import { store } from "./store.js";

/** Between two lanes, and beside the first; closer on a narrow screen. */
const WIDE = { lane: 14, margin: 12 };
const NARROW = { lane: 9, margin: 8 };
/** More lanes than this are counted at the row. */
const MOST_LANES = 24;
const MOST_NARROW = 6;
/** Of a long plan one screen is drawn at once, then so many rows whenever there is time. */
const FIRST_ROWS = 32;
const MORE_ROWS = 24;
const LATEST_MS = 100;
const [whenIdle, notAnyMore] = "requestIdleCallback" in window ? [requestIdleCallback, cancelIdleCallback] : [setTimeout, clearTimeout];

/** The height of a row, as the style sheet has it. */
function rowHeight() {
  return parseInt(getComputedStyle(document.documentElement).getPropertyValue("--row"), 10) || 32;
}

/** The shape of a plan: what the layout depends on. @param {any[]} steps */
function shapeOf(steps) {
  return steps.map((step) => `${step.anchor}<${step.needs.join()}`).join(";");
}

export class RailView extends Pure {
  constructor() {
    super();
    this.state = { height: rowHeight(), narrow: narrow(), rows: FIRST_ROWS };
    this.resized = () => {
      const now = { height: rowHeight(), narrow: narrow() };
      if (now.height !== this.state.height || now.narrow !== this.state.narrow) this.setState(now);
    };
  }
  componentDidMount() {
    addEventListener("resize", this.resized);
    this.draw_more();
  }
  componentDidUpdate() {
    this.draw_more();
  }
  componentWillUnmount() {
    removeEventListener("resize", this.resized);
    notAnyMore(this.more);
  }

  /** Rows below the screen come once what is on it is drawn. */
  draw_more() {
    if (this.state.rows >= this.props.steps.length) {
      if (!this.seen) document.querySelector(".row[aria-current]")?.scrollIntoView({ block: "nearest" });
      this.seen = true;
      return;
    }
    notAnyMore(this.more);
    this.more = whenIdle(() => this.setState({ rows: this.state.rows + MORE_ROWS }), { timeout: LATEST_MS });
  }

  /** Lanes change only if the plan does. */
  layout(steps, most) {
    const shape = `${most}|${shapeOf(steps)}`;
    if (this.shape !== shape) [this.shape, this.laid] = [shape, rail(steps, most)];
    const now = new Map(steps.map((/** @type {any} */ step) => [step.anchor, step]));
    return { ...this.laid, order: this.laid.order.map((/** @type {any} */ step) => now.get(step.anchor)) };
  }

  /** What is lit changes only with the selection or the plan. */
  near(steps, selected) {
    const asked = `${selected}|${this.shape}`;
    if (this.asked !== asked) [this.asked, this.lit] = [asked, related(steps, selected)];
    return this.lit;
  }

  render({ steps, slug, selected, show, text, follows, follow }, { height, narrow, rows }) {
    const wanted = steps.filter((/** @type {any} */ step) => matches(step, show, text));
    const laid = this.layout(wanted, narrow ? MOST_NARROW : MOST_LANES);
    const near = this.near(wanted, selected);
    const some = laid.order.slice(0, rows);
    return html`<${Filter} show=${show} text=${text} steps=${steps} shown=${wanted.length} follows=${follows} follow=${follow} />
      <div class="rail-box"><${Lanes} laid=${this.laid} order=${laid.order} rows=${rows} height=${height} near=${near} room=${narrow ? NARROW : WIDE} />
      <ol class=${`rail lanes-${Math.min(laid.lanes, MOST_LANES + 1)}${selected ? " focused" : ""}`} aria-label="Steps" data-steps=${steps.length} aria-busy=${some.length < laid.order.length ? "true" : undefined}>
        ${some.map((/** @type {any} */ step, /** @type {number} */ at) => html`<${Row} key=${step.anchor} step=${step} slug=${slug} current=${step.anchor === selected} near=${!near || near.has(step.anchor)} beyond=${laid.rows[at].beyond} />`)}
      </ol></div>
      ${!wanted.length && html`<p class="empty">No step matches.</p>`}`;
  }
}

/** @param {any} step @param {string} show @param {string} text */
function matches(step, show, text) {
  if (show && step.standing !== show) return false;
  if (!text) return true;
  const said = [step.anchor, step.title, step.claimed_by ?? "", step.role ?? "", ...step.artifacts.map((/** @type {any} */ each) => each.summary)];
  return said.some((each) => each.toLowerCase().includes(text.toLowerCase()));
}

/** The selected step with what it needs and what needs it; null if none is. @param {any[]} steps @param {string} selected */
export function related(steps, selected) {
  const found = steps.find((step) => step.anchor === selected);
  if (!found) return null;
  return new Set([selected, ...found.needs, ...steps.filter((step) => step.needs.includes(selected)).map((step) => step.anchor)]);
}

class Filter extends Pure {
  render({ show, text, steps, shown, follows, follow }) {
    const standings = Object.entries(store.words.standings).filter(([name]) => name === show || steps.some((/** @type {any} */ step) => step.standing === name));
    return html`<div class="filter" role="search">
      <label><span class="hidden">Standing</span><select data-filter="standing" value=${show} onChange=${(/** @type {any} */ event) => go(withQuery({ show: event.target.value }), true)}>
        <option value="">all steps</option>${standings.map(([name, each]) => html`<option value=${name}>${each.sign} ${each.word}</option>`)}</select></label>
      <label><span class="hidden">Filter</span><input type="search" data-filter="text" placeholder="filter" value=${text} onInput=${(/** @type {any} */ event) => go(withQuery({ q: event.target.value }), true)} /></label>
      ${(show || text) && html`<span class="faint num" role="status">${shown} of ${steps.length}</span>`}
      <button type="button" class="toggle keys-only" aria-pressed=${follows ? "true" : "false"} data-follow onClick=${() => follow()}>follow <kbd>f</kbd></button></div>`;
  }
}

/** The lines and dots; the rows say the same in words. */
class Lanes extends Pure {
  render({ laid, order, rows, height, near, room }) {
    const x = (/** @type {number} */ lane) => room.margin + lane * room.lane;
    const y = (/** @type {number} */ row) => row * height + height / 2;
    const width = room.margin * 2 + Math.max(laid.lanes - 1, 0) * room.lane;
    const tall = order.length * height;
    return html`<svg class="lanes" width=${width} height=${tall} viewBox=${`0 0 ${width} ${tall}`} aria-hidden="true">
      <${Links} laid=${laid} rows=${rows} height=${height} near=${near} room=${room} />
      ${laid.rows.slice(0, rows).map((/** @type {any} */ row, /** @type {number} */ at) => html`<${Dot} key=${row.anchor} standing=${order[at].standing} status=${order[at].status} x=${x(row.lane)} y=${y(at)} far=${Boolean(near && !near.has(row.anchor))} />`)}</svg>`;
  }
}

/** The lines alone: they stay while steps change. */
class Links extends Pure {
  render({ laid, rows, height, near, room }) {
    const x = (/** @type {number} */ lane) => room.margin + lane * room.lane;
    const y = (/** @type {number} */ row) => row * height + height / 2;
    return laid.links.filter((/** @type {any} */ link) => link.row < rows).map((/** @type {any} */ link) => html`<path d=${bend(link, x, y, height)} class=${!near ? "" : near.has(link.from) && near.has(link.to) ? "near" : "far"} />`);
  }
}

/** The shape says it too: hollow waits, full is or was at work, square needs you. */
class Dot extends Pure {
  render({ standing, status, x, y, far }) {
    const square = ["stale", "parked", "question"].includes(standing);
    const names = { class: far ? "dot far" : "dot", "data-standing": standing, "data-status": status };
    return square ? html`<rect ...${names} x=${x - 4.5} y=${y - 4.5} width="9" height="9" rx="1" />` : html`<circle ...${names} cx=${x} cy=${y} r="4.5" />`;
  }
}

class Row extends Pure {
  componentDidUpdate(before) {
    // What the server changed fades; nothing moves.
    if (before.step !== this.props.step && this.box && changed(before.step, this.props.step)) {
      this.box.classList.remove("changed");
      requestAnimationFrame(() => this.box?.classList.add("changed"));
    }
  }
  render({ step, slug, current, near, beyond }) {
    const { completed, total } = tally(step.rolled_up);
    return html`<li ref=${(/** @type {any} */ box) => (this.box = box)} class=${near ? "" : "far"} data-step=${step.anchor} data-standing=${step.standing} data-status=${step.status}>
      <a class="row" href=${stepAt(slug, step.anchor)} data-row data-stay aria-current=${current ? "true" : undefined}>
        <span class="anchor">${step.anchor}</span> <${Sign} standing=${step.standing} status=${step.status} />
        <span class="title" title=${step.title}>${step.title}</span> <span class="facts">${facts(step)}${beyond > 0 && html` <span class="faint">+${beyond}</span>`}</span>
        <span class="num done" aria-label=${`${completed} of ${total} items`}>${completed}/${total}</span></a></li>`;
  }
}

/** @param {any} before @param {any} step */
function changed(before, step) {
  return before.standing !== step.standing || before.attempt !== step.attempt || tally(before.rolled_up).completed !== tally(step.rolled_up).completed;
}

/** What the terminal says behind the title. @param {any} step */
export function facts(step) {
  const said = [];
  if (step.standing === "completed" || step.standing === "deferred") {
    const { deferred } = tally(step.rolled_up);
    if (deferred) said.push(html`<span class="you">${many(deferred, "item")} deferred</span>`);
    if (step.complete_reason) said.push(html`<span class="you">forced: ${step.complete_reason}</span>`);
    if (step.commit_hash) said.push(html`<code>${step.commit_hash.slice(0, 7)}</code>`);
    if (step.attempts.length && step.completed_at) said.push(duration(between(step.attempts.at(-1).claimed_at, step.completed_at)));
  } else if (step.standing === "at_work" || step.standing === "question") {
    if (step.standing === "question") said.push("a question waits for you");
    else said.push(html`${step.role ?? "at work"} <${Since} at=${step.role_since ?? step.claimed_at} />`);
    said.push(worker(step.claimed_by));
    if (step.attempt > 1) said.push(`attempt ${step.attempt}`);
    if (step.parked_at) said.push(html`<span class="you">last attempt</span>`);
  } else if (step.standing === "stale") {
    const gone = step.holder_gone && `its process ${step.attempts.at(-1)?.holder_pid} is gone`;
    said.push(gone || html`<${Since} at=${step.lease_expires_at} before="its lease ended " after=" ago" />`, worker(step.claimed_by));
  } else if (step.standing === "parked") said.push(html`<span class="you">waits for you</span>`);
  else if (step.standing === "blocked" && step.waiting_for.length) said.push(`waits for ${numbers(step.waiting_for)}`);
  return said.map((each, at) => html`${at > 0 && html`<span class="dot-between"> · </span>`}${each}`);
}
