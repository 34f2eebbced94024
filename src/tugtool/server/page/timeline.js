// The timeline: a bar for each attempt, the roles inside it, and idle time folded away.
import { get } from "./api.js";
import { dollars, duration, grouped, local, many, number, worker } from "./format.js";
import { html, Pure } from "./html.js";
import { related } from "./rail.js";
import { go, withQuery } from "./route.js";
import { store } from "./store.js";

/** Names stand at the left, on a narrow screen above their bars. */
const WIDE = { names: 132, line: 28, bar: 4, letters: 18 };
const NARROW = { names: 0, line: 44, bar: 18, letters: 40 };
const BAR = 20;
const HEAD = 24;
const FOOT = 20;
/** The tokens over time: its height, and the width of one bar. */
const TOKENS = { tall: 28, wide: 8 };
const FOLD = 34;
/** Idle for longer than this and a twentieth of all work is folded. */
const IDLE_SECONDS = 600;
/** Between two times along the top: one of these many minutes, and at least so many pixels. */
const MINUTES = [5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080];
const APART = 72;
const MARKS = { revise: "R", taken: "✂", deferred: "~" };

/** Busy spans on one axis: time to place. */
export class Axis {
  /** @param {[number, number][]} spans in milliseconds @param {number} width */
  constructor(spans, width) {
    const sorted = [...spans].sort((a, b) => a[0] - b[0]);
    /** @type {[number, number][]} */
    const busy = [];
    const work = sorted.reduce((sum, [from, to]) => sum + (to - from), 0);
    const idle = Math.max(IDLE_SECONDS * 1000, work / 20);
    for (const [from, to] of sorted) {
      const last = busy.at(-1);
      if (last && from - last[1] <= idle) last[1] = Math.max(last[1], to);
      else busy.push([from, Math.max(to, from + 1)]);
    }
    const total = busy.reduce((sum, [from, to]) => sum + (to - from), 0) || 1;
    const room = Math.max(width - (busy.length - 1) * FOLD, 80);
    let x = 0;
    this.parts = busy.map(([from, to], at) => {
      const part = { from, to, x, width: ((to - from) / total) * room, gap: at ? from - busy[at - 1][1] : 0 };
      x += part.width + FOLD;
      return part;
    });
    this.width = Math.max(x - FOLD, 0);
  }

  /** @param {number} time */
  x(time) {
    const part = this.parts.find((each) => time <= each.to) ?? this.parts.at(-1);
    if (!part) return 0;
    const inside = Math.min(Math.max(time - part.from, 0), part.to - part.from);
    return part.x + (inside / (part.to - part.from)) * part.width;
  }
}

export class Timeline extends Pure {
  constructor() {
    super();
    this.state = { width: 0, events: [], roles: new Map() };
  }
  componentDidMount() {
    this.watcher = new ResizeObserver(([entry]) => this.setState({ width: Math.floor(entry.contentRect.width) }));
    this.watcher.observe(this.box);
    this.load();
  }
  componentDidUpdate(before) {
    if (before.plan.updated_at !== this.props.plan.updated_at) this.load();
  }
  componentWillUnmount() {
    this.watcher?.disconnect();
    this.gone = true;
  }
  async load() {
    if (this.loading) return;
    this.loading = true;
    const plan = this.props.plan.plan_path;
    const none = { events: [], attempts: [], plans: [] };
    const ask = (/** @type {string} */ path, more = {}) => get(path, { plan, ...more }).catch(() => none);
    const [past, log, { plans }] = await Promise.all([ask("plan/attempts"), ask("events", { kind: "claim,revise,update,agent", limit: 2000 }), ask("state/stats")]);
    this.loading = false;
    const roles = new Map(past.attempts.map((/** @type {any} */ each) => [`${each.step_anchor}/${each.number}`, each.roles]));
    if (!this.gone) this.setState({ stats: plans[0] ?? null, events: log.events, roles });
  }

  /** Every attempt; one whose worker was lost ends with its lease. */
  attempts() {
    return this.props.plan.steps.flatMap((/** @type {any} */ step) => step.attempts.map((/** @type {any} */ each) => {
      const outcome = each.outcome ?? (step.standing === "stale" ? "stale" : "running");
      const now = Math.max(store.now(), Date.parse(each.seen_at));
      const to = each.ended_at ? Date.parse(each.ended_at) : outcome === "stale" ? Math.min(now, Date.parse(step.lease_expires_at)) : now;
      return { ...each, step, outcome, from: Date.parse(each.claimed_at), to };
    }));
  }

  render({ plan, by, selected }, { width, events, stats }) {
    const every = this.attempts();
    const keep = (/** @type {Element | null} */ box) => (this.box = box);
    const choose = html`<div class="filter"><label><span class="hidden">Lines</span><select data-filter="by" value=${by} onChange=${(/** @type {any} */ event) => go(withQuery({ by: event.target.value === "worker" ? "" : event.target.value }), true)}><option value="worker">by worker</option><option value="step">by step</option></select></label></div>`;
    if (!every.length) return html`<div ref=${keep}>${choose}<p class="empty">Nothing was begun yet.</p></div>`;
    const size = width < 560 ? NARROW : WIDE;
    const axis = new Axis(every.map((each) => [each.from, each.to]), Math.max(width - size.names - 8, 200));
    const names = by === "step" ? plan.steps.filter((/** @type {any} */ step) => step.attempts.length).map((/** @type {any} */ step) => step.anchor)
      : [...new Set(every.map((each) => each.worktree))].sort((a, b) => worker(a).localeCompare(worker(b), "en", { numeric: true }));
    const line = new Map(names.map((/** @type {string} */ name, /** @type {number} */ at) => [name, at]));
    const near = related(plan.steps, selected);
    const used = tokens(events, axis);
    const marked = new Set(events.filter(markOf).map((event) => `${event.step_anchor}/${event.attempt}`));
    const rows = HEAD + names.length * size.line + (size.names ? 8 : 16);
    const tall = rows + (used.length ? TOKENS.tall + 8 : 0);
    const of = (/** @type {any} */ each) => line.get(by === "step" ? each.step.anchor : each.worktree) ?? 0;
    return html`<div class="timeline" ref=${keep} aria-busy=${stats === undefined ? "true" : undefined}>${choose}<svg width=${Math.max(width, 208)} height=${tall + FOOT} viewBox=${`0 0 ${Math.max(width, 208)} ${tall + FOOT}`} role="group" aria-label="Attempts over time">
      <g aria-hidden="true">${ticks(axis, tall, size.names)}</g>
      ${names.map((/** @type {string} */ name, /** @type {number} */ at) => html`<text class="name" x="0" y=${HEAD + at * size.line + (size.names ? 18 : 12)}>${cut(by === "step" ? `${number(name)} ${plan.steps.find((/** @type {any} */ step) => step.anchor === name)?.title ?? ""}` : worker(name), size.letters)}</text>`)}
      ${used.length > 0 && html`<text class="tick" x="0" y=${rows + (size.names ? TOKENS.tall : -4)}>tokens</text><g class="tokens" role="img" aria-label="Tokens over time" transform=${`translate(${size.names} ${rows})`}>${used.map((each) => html`<rect x=${each.x} y=${TOKENS.tall - each.part * TOKENS.tall} width=${TOKENS.wide - 1} height=${each.part * TOKENS.tall}><title>${grouped(each.sum)} tokens</title></rect>`)}</g>`}
      <g transform=${`translate(${size.names} ${HEAD + size.bar})`}>${every.map((each) => this.bar(each, axis, of(each) * size.line, near, marked))}
        <g aria-hidden="true">${marks(events, every, axis, (each) => of(each) * size.line)}</g></g></svg>
      ${stats && summary(stats)}
      ${legend(events, axis)}</div>`;
  }

  /** @param {any} each @param {Axis} axis @param {number} y @param {Set<string> | null} near @param {Set<string>} marked */
  bar(each, axis, y, near, marked) {
    const x = axis.x(each.from);
    const width = Math.max(axis.x(each.to) - x, 3);
    const { outcome } = each;
    const key = `${each.step.anchor}/${each.number}`;
    const label = width > (marked.has(key) ? 44 : outcome === "completed" ? 22 : 36) ? `${number(each.step.anchor)}${{ failed: " ✗", dead: " !", expired: " !", stale: " !" }[outcome] ?? ""}` : "";
    const begun = (/** @type {any} */ role) => axis.x(Date.parse(role.since));
    // No line runs through the label.
    const roles = (this.state.roles.get(key) ?? []).slice(1).filter((/** @type {any} */ role) => begun(role) > x + 4 + label.length * 9);
    const current = each.step.anchor === this.props.selected;
    const said = `${each.step.anchor} attempt ${each.number} by ${worker(each.worktree)}: ${outcome}, ${duration((each.to - each.from) / 1000)}${each.tokens ? `, ${grouped(each.tokens)} tokens` : ""}`;
    return html`<a key=${key} href=${withQuery({ s: current ? "" : each.step.anchor })} data-row data-stay data-attempt=${key} data-outcome=${outcome} class=${near && !near.has(each.step.anchor) ? "far" : ""} aria-label=${said}><title>${said}</title>
      <rect class="attempt" x=${x} y=${y} width=${width} height=${BAR} rx="3" />
      ${roles.map((/** @type {any} */ role) => html`<rect class="role-edge" x=${begun(role)} y=${y} width="1" height=${BAR}><title>${role.role}</title></rect>`)}
      ${label && html`<text class="label" x=${x + 5} y=${y + 14}>${label}</text>`}</a>`;
  }
}

/** Hours along the top; at the bottom, how long each fold is. @param {Axis} axis @param {number} tall @param {number} names */
function ticks(axis, tall, names) {
  return axis.parts.map((part, at) => {
    const x = names + part.x;
    const label = local(new Date(part.from).toISOString()).slice(-8, -3);
    return html`${at > 0 && html`<rect class="idle" x=${x - FOLD} y=${HEAD} width=${FOLD} height=${tall - HEAD} /><text class="tick" x=${x - FOLD / 2} y="14" text-anchor="middle">∕∕</text><text class="tick" x=${x - FOLD / 2} y=${tall + 14} text-anchor="middle">${duration(part.gap / 1000).split(" ")[0]}</text>`}
      ${part.width > 44 && html`<text class="tick" x=${x + (at ? 2 : 0)} y="14">${label}</text>`}
      ${times(part).map((time) => html`<text class="tick" x=${names + axis.x(time)} y="14" text-anchor="middle">${local(new Date(time).toISOString()).slice(-8, -3)}</text><line class="edge" x1=${names + axis.x(time)} y1=${HEAD} x2=${names + axis.x(time)} y2=${tall} />`)}
      ${part.width > 130 && html`<text class="tick" x=${x + part.width} y="14" text-anchor="end">${at === axis.parts.length - 1 && store.now() - part.to < 60_000 ? "now" : local(new Date(part.to).toISOString()).slice(-8, -3)}</text>`}
      <line class="edge" x1=${x} y1=${HEAD} x2=${x} y2=${tall} />`;
  });
}

/** Round times inside a part, as many as have room, in local time. @param {{from: number, to: number, width: number}} part @returns {number[]} */
function times({ from, to, width }) {
  const each = (MINUTES.find((minutes) => ((minutes * 60_000) / (to - from)) * width >= APART) ?? Infinity) * 60_000;
  const offset = new Date(from).getTimezoneOffset() * 60_000;
  const edge = ((to - from) / width) * APART;
  const first = Math.ceil((from + edge - offset) / each) * each + offset;
  return Array.from({ length: Math.max(0, Math.ceil((to - edge - first) / each)) || 0 }, (_, n) => first + n * each);
}

/** The mark of an event; most have none. @param {any} event */
function markOf(event) {
  const taken = event.kind === "claim" && ["expired", "dead"].includes(event.detail.outcome);
  const put = event.kind === "update" && event.detail.items.some((/** @type {any[]} */ item) => item.at(-1) === "deferred");
  return event.kind === "revise" ? MARKS.revise : taken ? MARKS.taken : put ? MARKS.deferred : "";
}

/** Revisions, take-overs and deferred items. @param {any[]} events @param {any[]} every @param {Axis} axis @param {(each: any) => number} of */
function marks(events, every, axis, of) {
  return events.flatMap((event) => {
    const mark = markOf(event);
    const attempt = every.find((each) => each.step.anchor === event.step_anchor && each.number === event.attempt);
    if (!mark || (!attempt && event.kind !== "revise")) return [];
    const y = attempt ? of(attempt) : -14;
    // Inside its own bar, so that the next one's number can be read.
    const [least, most] = attempt ? [axis.x(attempt.from) + 8, axis.x(attempt.to) - 8] : [0, axis.width];
    const x = Math.max(Math.min(axis.x(Date.parse(event.at)), most), Math.min(least, most));
    return [html`<circle class="mark-ground" cx=${x} cy=${y + 10} r="7" /><text class="mark" x=${x} y=${y + 14} text-anchor="middle">${mark}</text>`];
  });
}

/** The tokens that agents reported, gathered along the axis. @param {any[]} events @param {Axis} axis */
function tokens(events, axis) {
  /** @type {Map<number, number>} */
  const sums = new Map();
  for (const event of events) {
    if (event.kind !== "agent" || !event.detail.tokens) continue;
    const at = Math.min(Math.floor(axis.x(Date.parse(event.at)) / TOKENS.wide), Math.floor(axis.width / TOKENS.wide) - 1);
    sums.set(at, (sums.get(at) ?? 0) + event.detail.tokens);
  }
  const most = Math.max(...sums.values(), 1);
  return [...sums].map(([at, sum]) => ({ x: at * TOKENS.wide, sum, part: sum / most }));
}

/** The figures of the plan in one line, as the tab of figures has them. @param {any} stats */
function summary(stats) {
  const cost = dollars(stats.cost_microdollars);
  const said = [cost && `${cost} in all`, stats.tokens !== null && `${grouped(stats.tokens)} tokens`, `worked ${duration(stats.working_seconds)}`, `waited ${duration(stats.waiting_seconds)}`, stats.parallelism !== null && `parallelism ${stats.parallelism.toFixed(2)}`, many(stats.attempts, "attempt"), stats.reclaims > 0 && `${stats.reclaims} taken over`].filter(Boolean);
  return html`<p class="legend">${said.map((each, at) => html`${at > 0 && " · "}<span class="num">${each}</span>`)}</p>`;
}

/** What the marks mean: those that are there. @param {any[]} events @param {Axis} axis */
function legend(events, axis) {
  const there = new Set(events.map(markOf));
  const said = [[MARKS.taken, "taken over"], [MARKS.deferred, "item deferred"], [MARKS.revise, "revised"]].filter(([mark]) => there.has(mark));
  if (axis.parts.length > 1) said.push(["∕∕", "idle time, folded"]);
  return said.length > 0 && html`<p class="faint legend">${said.map(([mark, words], at) => html`${at > 0 && ", "}<span class="num"><span class="marks">${mark}</span> ${words}</span>`)}</p>`;
}

/** @param {string} text @param {number} most */
function cut(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
