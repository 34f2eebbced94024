// What waits for a person: in the order of `tugcode status`, with the details of `tugcode review`.
import { sentence, Since, worker } from "./format.js";
import { html } from "./html.js";
import { Empty, Said, Sign } from "./parts.js";
import { plan as planAt, step as stepAt } from "./route.js";
import { store } from "./store.js";

/** Kinds of `needs_you` that `review` tells one by one: its list. */
const LISTS = { deferred: "deferred_items", parked: "parked_steps", question: "questions", audit: "audits" };
const STANDINGS = { deferred: "deferred", parked: "parked", question: "question" };
/** Signs of what is not a step. */
const MARKS = { audit: "△", unmerged: "⑂", paused: "‖", run_died: "!", changed_outside: "!", worktree_gone: "!", worktree_moved: "!" };

/** @typedef {{id: string, what: string, plan: any, each: any, words: string, command: string}} Need */

/** The name of a thing that waits, for addresses. @param {string} what @param {any} each @param {string} slug */
function idOf(what, each, slug) {
  const item = each.kind ? `.${each.kind}.${each.ordinal}` : "";
  return [what, slug, each.step_anchor ? each.step_anchor + item : ""].filter(Boolean).join(":");
}

/** One entry for each thing that waits. @param {any} overview @param {any} review @returns {Need[]} */
export function needs(overview, review) {
  const plans = new Map(overview.plans.map((/** @type {any} */ plan) => [plan.plan_path, plan]));
  return overview.needs_you.flatMap((/** @type {any} */ need) => {
    const plan = plans.get(need.plan_path);
    const details = (review?.[LISTS[need.what]] ?? []).filter((/** @type {any} */ each) => each.plan_path === need.plan_path);
    const entries = details.length ? details : [null];
    return entries.map((/** @type {any} */ each) => ({
      id: idOf(need.what, each ?? {}, plan?.slug ?? need.plan_path), what: need.what, plan, each,
      words: said(need), command: need.command,
    }));
  });
}

/** What `review` also lists: checkpoints that nothing proves. @param {any} overview @param {any} review @returns {Need[]} */
export function unproven(overview, review) {
  const plans = new Map(overview.plans.map((/** @type {any} */ plan) => [plan.plan_path, plan]));
  return (review?.unproven_items ?? []).map((/** @type {any} */ each) => {
    const plan = plans.get(each.plan_path);
    return { id: idOf("unproven", each, plan?.slug ?? each.plan_path), what: "unproven", plan, each, words: "not proven", command: each.show_command };
  });
}

/** The terminal's words for it. @param {any} need */
function said(need) {
  const [one, several] = store.words?.needs[need.what] ?? [need.what, ""];
  return need.count === 1 || !several ? one : several.replace("{}", String(need.count));
}

/** The sign of a thing that waits. @param {{need: Need}} props */
export function NeedSign({ need }) {
  const standing = STANDINGS[need.what];
  if (standing) return html`<${Sign} standing=${standing} word=${need.what} />`;
  const mark = MARKS[need.what] ?? (need.what === "unproven" ? "✓" : "≠");
  return html`<span class="sign" data-standing=${need.what === "unproven" ? "completed" : "stale"}><span class="glyph" aria-hidden="true">${mark}</span><span class="word">${need.what.replaceAll("_", " ")}</span></span>`;
}

/** What it is about, and why it waits. @param {Need} need */
export function told(need) {
  const { each, what } = need;
  if (what === "paused" && need.plan) return { title: need.plan.title ?? "", why: paused(need.plan) };
  if (!each) return { title: need.plan?.title ?? "", why: need.words };
  if (what === "deferred") return { title: each.text, why: `deferred${each.deferred_by ? ` by ${worker(each.deferred_by)}` : ""}${each.reason ? `: ${each.reason}` : ""}` };
  if (what === "parked") return { title: each.step_title, why: `parked: ${sentence(each.reason)}` };
  if (what === "question") return { title: each.step_title, why: `${worker(each.claimed_by)} asks: ${each.reason}` };
  if (what === "audit") return { title: "the plan as a whole", why: `${each.recommendation}: ${each.summary}` };
  return { title: each.text, why: each.reason ?? (what === "unproven" ? each.step_title : need.words) };
}

/** Who paused a plan, and why. @param {any} plan */
export function paused(plan) {
  const by = plan.paused_by ? ` by ${worker(plan.paused_by)}` : "";
  return `paused${by}${plan.paused_reason ? `: ${plan.paused_reason}` : ""}`;
}

/** @param {any} overview @param {any} review */
export function needsList(overview, review) {
  const every = needs(overview, review);
  const stale = review?.stale_steps ?? [];
  return html`${every.length ? html`<ul class="needs">${every.map(line)}</ul>` : html`<${Empty}><span class="calm">Nothing needs you.</span><//>`}
    ${stale.length > 0 && html`<h3>Waits for a run</h3><ul class="needs">${stale.map((/** @type {any} */ each) => staleLine(overview, each))}</ul>`}`;
}

/** @param {Need} need */
function line(need) {
  const { title, why } = told(need);
  const slug = need.plan?.slug ?? "";
  const at = need.each ? `/review?at=${encodeURIComponent(need.id)}` : planAt(slug, need.what.startsWith("file") ? "text" : "rail");
  return html`<li key=${need.id} data-need=${need.what}>
    <${NeedSign} need=${need} /><span class="plan-name">${slug}</span>
    <span class="anchor">${need.each?.step_anchor ?? ""}</span>
    <span class="what"><${Said} text=${title} /></span><span class="why">${why}</span>
    <a class="look" href=${at} data-row>look<span class="hidden"> at ${slug} ${need.each?.step_anchor ?? need.words}</span></a></li>`;
}

/** @param {any} overview @param {any} each */
function staleLine(overview, each) {
  const plan = overview.plans.find((/** @type {any} */ plan) => plan.plan_path === each.plan_path);
  const claim = plan?.claims.find((/** @type {any} */ claim) => claim.anchor === each.step_anchor);
  return html`<li key=${`${each.plan_path}/${each.step_anchor}`} data-need="stale">
    <${Sign} standing="stale" /><span class="plan-name">${plan?.slug}</span><span class="anchor">${each.step_anchor}</span>
    <span class="what">${each.step_title}</span>
    <span class="why">${worker(each.claimed_by)}, ${each.stale === "gone" ? "its process is gone" : html`<${Since} at=${claim?.lease_expires_at} before="lease out " after=" ago" />`}</span>
    <a class="look" href=${stepAt(plan?.slug ?? "", each.step_anchor)} data-row>why<span class="hidden"> is ${each.step_anchor} stale</span></a></li>`;
}


