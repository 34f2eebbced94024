// Now: what changed since the last visit, what needs a person, plans, workers, the last events.
import { get } from "./api.js";
import { needsList, paused } from "./needs.js";
import { brief, local, number, sentence, Since, worker } from "./format.js";
import { html, Pure } from "./html.js";
import { Command, Empty, Lease, planBar, Section, Sign } from "./parts.js";
import { plan as planAt, step as stepAt } from "./route.js";
import { SinceLast } from "./visits.js";

/** @param {{overview: any, review: any, events: any[]}} props */
export function Now({ overview, review, events }) {
  const needs = overview.needs_you.reduce((/** @type {number} */ sum, /** @type {any} */ each) => sum + each.count, 0);
  return html`<main id="main" class="page now" tabindex="-1">
    <h1 class="hidden">Now</h1>
    <${SinceLast} />
    <${Section} title="Needs you" count=${needs} id="needs">${needsList(overview, review)}<//>
    <${Section} title="Plans" count=${overview.plans.length} id="plans">${plans(overview, events)}<//>
    <${Section} title="Workers" count=${claims(overview).length} id="workers">${strip(overview)}<//>
    <${Section} title="Last" id="last">${lastEvents(overview, events)}<//>
  </main>`;
}

/** @param {any} overview @param {any[]} events */
function plans(overview, events) {
  if (!overview.plans.length) {
    return html`<${Empty}>There is no plan here yet. Make one: <${Command} text="tugcode plan new SLUG" /><//>`;
  }
  return html`<div class="scroll"><table class="plans">
    <thead><tr><th scope="col">plan</th><th scope="col"><span class="hidden">progress</span></th>
      <th scope="col" class="num">done</th><th scope="col" class="num">work</th><th scope="col" class="num">ready</th>
      <th scope="col" class="num">wait</th><th scope="col" class="num">you</th><th scope="col" class="num">workers</th><th scope="col" class="num">changed</th></tr></thead>
    <tbody>${overview.plans.map((/** @type {any} */ plan) => row(plan, overview, events))}</tbody></table></div>`;
}

/** @param {any} plan @param {any} overview @param {any[]} events */
function row(plan, overview, events) {
  const needs = overview.needs_you.filter((/** @type {any} */ each) => each.plan_path === plan.plan_path);
  const you = needs.reduce((/** @type {number} */ sum, /** @type {any} */ each) => sum + each.count, 0);
  const { steps, items } = plan;
  const [done, total] = plan.recorded ? [steps.completed, steps.total] : [items.completed, items.total];
  return html`<tr key=${plan.plan_path} data-plan=${plan.slug} data-status=${status(plan)}>
    <th scope="row"><a href=${planAt(plan.slug)} data-row>${plan.slug}</a>
      <span class="plan-title">${plan.paused_at ? html`<${Sign} standing="stale" sign="‖" word=${paused(plan)} />` : plan.title}</span></th>
    <td class="progress">${planBar(plan)} <span class="num">${done}/${total}</span></td>
    ${[steps.completed, steps.held, steps.ready, steps.blocked].map((n, at) => html`<td class=${`num${n ? "" : " zero"}`} data-count=${["completed", "held", "ready", "blocked"][at]}>${n}</td>`)}
    <td class=${`num you${you ? "" : " zero"}`} data-count="you">${you}</td>
    <td class=${`num${plan.claims.length ? "" : " zero"}`} data-count="workers">${new Set(plan.claims.map((/** @type {any} */ claim) => claim.claimed_by)).size}</td>
    <td class="num faint" data-count="changed">${plan.recorded && html`<${LastChange} plan=${plan.plan_path} known=${events.findLast((each) => each.plan_path === plan.plan_path)?.at ?? ""} />`}</td></tr>`;
}

/** How long ago something happened to a plan; asked for if none of the last events is of it. */
class LastChange extends Pure {
  async componentDidMount() {
    const { plan, known } = this.props;
    if (known) return;
    const { events } = await get("events", { plan, limit: 1, quiet: true }).catch(() => ({ events: [] }));
    this.setState({ at: events.at(-1)?.at ?? "" });
  }
  render({ known }, { at }) {
    const last = known || at;
    return html`<span aria-busy=${last === undefined ? "true" : undefined}>${last ? html`<${Since} at=${last} />` : ""}</span>`;
  }
}

/** @param {any} plan */
export function status(plan) {
  if (!plan.recorded) return "not begun";
  if (plan.paused_at) return "paused";
  if (plan.status === "done") return plan.merged_commit ? "merged" : "done";
  return plan.status;
}

/** Every claim with its plan, stale ones first. @param {any} overview */
export function claims(overview) {
  const every = overview.plans.flatMap((/** @type {any} */ plan) => plan.claims.map((/** @type {any} */ claim) => ({ ...claim, plan })));
  return every.sort((/** @type {any} */ a, /** @type {any} */ b) => Number(!a.stale) - Number(!b.stale));
}

/** @param {any} claim */
export function claimStanding(claim) {
  return claim.stale ? "stale" : claim.question ? "question" : "at_work";
}

/** @param {any} overview */
function strip(overview) {
  const every = claims(overview);
  if (!every.length) return html`<${Empty}>No worker holds a step.<//>`;
  return html`<ul class="strip">${every.map((/** @type {any} */ claim) => html`
    <li key=${claim.plan.plan_path + claim.anchor} data-standing=${claimStanding(claim)}>
      <${Sign} standing=${claimStanding(claim)} status=${claim.status} word=${claim.stale ? "stale" : claim.role ?? undefined} />
      <b>${worker(claim.claimed_by)}</b>
      <a href=${stepAt(claim.plan.slug, claim.anchor)} data-row>${claim.plan.slug}/${number(claim.anchor)}</a>
      ${claim.stale ? html`<span class="facts">${claim.stale === "gone" ? "its process is gone" : html`<${Since} at=${claim.lease_expires_at} before="its lease ended " after=" ago" />`}</span>`
        : html`<${Since} at=${claim.role_since ?? claim.claimed_at} /> <${Lease} until=${claim.lease_expires_at} seconds=${lasting(claim)} />`}
    </li>`)}</ul>`;
}

/** @param {any} claim */
function lasting(claim) {
  return (Date.parse(claim.lease_expires_at) - Date.parse(claim.heartbeat_at)) / 1000;
}

/** @param {any} overview @param {any[]} events */
function lastEvents(overview, events) {
  const last = events.slice(-8).reverse();
  if (!last.length) return html`<${Empty}>Nothing has happened yet.<//>`;
  const slugs = new Map(overview.plans.map((/** @type {any} */ plan) => [plan.plan_path, plan.slug]));
  return html`<ol class="events short">${last.map((event) => html`<${EventLine} key=${event.seq} event=${event} slug=${slugs.get(event.plan_path)} />`)}</ol>`;
}

/** One event in its sentence; `day`: its day is said above it. @param {{event: any, slug?: string, bare?: boolean, day?: boolean}} props */
export function EventLine({ event, slug, bare, day }) {
  const step = event.step_anchor;
  const { failed, parked } = event.detail ?? {};
  const bad = (Array.isArray(failed) ? failed.length : failed) || parked;
  return html`<li data-seq=${event.seq} data-kind=${event.kind} class=${bad ? "failed" : ""}>
    <time datetime=${event.at} title=${local(event.at, true)}>${day ? local(event.at, true).slice(11) : brief(event.at)}</time>
    ${!bare && html`<a class="plan-name" href=${slug ? planAt(slug) : "/"}>${slug ?? event.plan_path}</a>`}
    ${step ? html`<a class="anchor" href=${slug ? stepAt(slug, step) : "/"}>${step}</a>` : html`<span class="anchor"></span>`}
    <span class="said">${sentence(event.words ?? event.kind)}</span></li>`;
}


