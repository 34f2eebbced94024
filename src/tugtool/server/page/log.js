// The log: every event in its sentence; newest first; signs of life only on request.
import { get } from "./api.js";
import { local, worker } from "./format.js";
import { html, Pure } from "./html.js";
import { EventLine } from "./now.js";
import { Empty, Section } from "./parts.js";
import { go, withQuery } from "./route.js";

const PAGE = 200;

/** @param {{overview: any, recent: any[], query: string}} props */
export function LogPage({ overview, recent, query }) {
  return html`<main id="main" class="page" tabindex="-1"><h1>Log</h1><${Log} plans=${overview.plans} recent=${recent} query=${query} /></main>`;
}

export class Log extends Pure {
  constructor() {
    super();
    this.state = { events: [], more: false, asked: false };
  }
  componentDidMount() {
    this.load();
  }
  componentDidUpdate(before) {
    if (before.query !== this.props.query) this.load();
  }
  componentWillUnmount() {
    this.gone = true;
  }

  filters() {
    const query = new URLSearchParams(this.props.query);
    const value = (/** @type {string} */ name) => query.get(name) ?? "";
    return { plan: this.props.plan?.slug ?? value("plan"), step: value("step"), actor: value("actor"), kind: value("kind"), life: value("life") };
  }

  /** @param {number} [before] */
  async load(before) {
    const { plan, step, kind, life } = this.filters();
    const kinds = kind || (life ? KINDS.join() : "");
    const path = this.props.plans.find((/** @type {any} */ each) => each.slug === plan)?.plan_path;
    const data = await get("events", { plan: path, step: path ? step : "", kind: kinds, quiet: true, before, limit: PAGE }).catch((error) => ({ events: [], more: false, error }));
    if (this.gone) return;
    const events = before ? [...data.events, ...this.state.events] : data.events;
    this.setState({ events, more: data.more, asked: true, error: data.error });
  }

  /** What was read, and what came since. */
  every() {
    const { plan, step, actor, kind } = this.filters();
    const { events } = this.state;
    const last = events.at(-1)?.seq ?? 0;
    const fresh = this.props.recent.filter((/** @type {any} */ each) => each.seq > last);
    const slug = new Map(this.props.plans.map((/** @type {any} */ each) => [each.plan_path, each.slug]));
    return [...events, ...fresh].filter((each) => (!plan || slug.get(each.plan_path) === plan) && (!step || each.step_anchor === step)
      && (!actor || worker(each.actor) === actor) && (!kind || each.kind === kind));
  }

  render({ plan, plans }, { asked, more, error }) {
    const every = this.every();
    const chosen = this.filters();
    const slugs = new Map(plans.map((/** @type {any} */ each) => [each.plan_path, each.slug]));
    const actors = [...new Set(this.state.events.map((each) => worker(each.actor)).filter(Boolean))].sort();
    return html`<div class="filter" role="search" aria-busy=${asked ? undefined : "true"}>
        ${!plan && pick("plan", "all plans", plans.filter((/** @type {any} */ each) => each.recorded).map((/** @type {any} */ each) => each.slug), chosen.plan)}
        ${pick("actor", "all actors", actors, chosen.actor)}
        ${pick("kind", "all kinds", [...new Set([...KINDS, chosen.kind])].filter(Boolean), chosen.kind)}
        <label><span class="hidden">Step</span><input type="search" data-filter="step" placeholder="step" value=${chosen.step} onChange=${(/** @type {any} */ event) => go(withQuery({ step: event.target.value }), true)} /></label>
        <label class="check"><input type="checkbox" data-filter="life" checked=${Boolean(chosen.life)} onChange=${(/** @type {any} */ event) => go(withQuery({ life: event.target.checked ? "1" : "" }), true)} /> signs of life</label></div>
      ${error && html`<p class="refusal">${error.message}</p>`}
      ${!every.length ? html`<${Empty}>${asked ? "No events." : "…"}<//>` : days(every).map(([day, events]) => html`<${Section} title=${day} key=${day} id=${`day-${day}`}>
        <ol class="events">${events.map((event) => html`<${EventLine} key=${event.seq} event=${event} slug=${slugs.get(event.plan_path)} bare=${Boolean(plan)} day=${true} />`)}</ol><//>`)}
      ${more && html`<p><button type="button" onClick=${() => this.load(this.state.events[0]?.seq)}>Earlier events</button></p>`}`;
  }
}

/** Kinds that can be chosen; others appear in the list all the same. */
const KINDS = ["init", "claim", "start", "heartbeat", "role", "agent", "update", "verify", "artifact", "complete", "release", "reset", "reopen", "unpark", "pause", "resume", "revise", "review_accepted", "review_rejected", "salvage", "merge", "reconcile", "run", "restore"];

/** Newest first, by day. @param {any[]} events @returns {[string, any[]][]} */
function days(events) {
  /** @type {Map<string, any[]>} */
  const found = new Map();
  for (const event of [...events].reverse()) {
    const day = local(event.at, true).slice(0, 10);
    if (!found.has(day)) found.set(day, []);
    found.get(day)?.push(event);
  }
  return [...found];
}

/** @param {string} name @param {string} all @param {string[]} choices @param {string} value */
function pick(name, all, choices, value) {
  return html`<label><span class="hidden">${name}</span><select data-filter=${name} value=${value} onChange=${(/** @type {any} */ event) => go(withQuery({ [name]: event.target.value }), true)}>
    <option value="">${all}</option>${choices.map((each) => html`<option value=${each}>${each.replaceAll("_", " ")}</option>`)}</select></label>`;
}


