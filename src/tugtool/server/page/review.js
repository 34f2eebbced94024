// Review: the queue at the left, the case at the right, with all that a decision needs.
import { ActionButton } from "./dialog.js";
import { CommitDiff, Evidence, Loaded, Notes, Patch } from "./diff.js";
import { local, many, sentence, worker } from "./format.js";
import { html, Pure } from "./html.js";
import { NeedSign, needs, told, unproven } from "./needs.js";
import { Command, Empty, Fold, Said } from "./parts.js";
import { go, plan as planAt, step as stepAt, withQuery } from "./route.js";
import { live } from "./live.js";

/** What is in the queue: everything that waits, then what nothing proves. @param {any} overview @param {any} review */
export function queue(overview, review) {
  return [...needs(overview, review), ...unproven(overview, review)];
}

/** True for what `status` counts. @param {any} need */
const waits = (need) => need.what !== "unproven";

/** What waits, and apart from it what nothing proves. @param {any[]} shown @returns {[string, any[]][]} */
function lists(shown) {
  const parts = /** @type {[string, any[]][]} */ ([["", shown.filter(waits)], ["Not proven", shown.filter((need) => !waits(need))]]);
  return parts.filter(([, list]) => list.length);
}

export class Review extends Pure {
  constructor() {
    super();
    this.state = { note: "" };
  }
  render({ overview, review, at, only, plans }, { note }) {
    const every = queue(overview, review);
    const shown = only ? every.filter((each) => each.plan?.slug === only) : every;
    const place = Math.max(0, shown.findIndex((each) => each.id === at));
    const chosen = at || !matchMedia("(max-width: 900px)").matches ? shown[place] : null;
    this.last = chosen?.id;
    const same = chosen ? shown.filter((each) => waits(each) === waits(chosen)) : [];
    return html`<main id="main" class="page review" tabindex="-1">
      <div class="review-head"><h1>Review <span class="count">${shown.filter(waits).length}</span></h1>
        ${every.length > 0 && html`<label><span class="hidden">Plan</span><select data-filter="plan" value=${only} onChange=${(/** @type {any} */ event) => go(withQuery({ plan: event.target.value, at: "" }), true)}>
          <option value="">all plans</option>${overview.plans.filter((/** @type {any} */ plan) => plan.recorded).map((/** @type {any} */ plan) => html`<option value=${plan.slug}>${plan.slug}</option>`)}</select></label>
        <p class="hint keys-only"><kbd>j</kbd> <kbd>k</kbd> next · <kbd>a</kbd> accept · <kbd>x</kbd> reject · <kbd>d</kbd> diff · <kbd>y</kbd> copy</p>`}</div>
      ${!shown.length ? html`<${Empty}><span class="calm">Nothing needs you.</span><//>` : html`<div class=${`split review-split${chosen ? " open" : ""}`}>
        <div class="queues">${lists(shown).map(([name, list]) => html`${name && html`<h2 class="queue-head">${name} <span class="count">${list.length}</span></h2>`}
          <ol class="queue" aria-label=${name || "Queue"}>${list.map((need) => this.entry(need, need === chosen))}</ol>`)}</div>
        ${chosen && html`<article class="case" data-case=${chosen.id} aria-label="Case">${this.caseOf(chosen, same.indexOf(chosen), same.length, plans, note)}</article>`}</div>`}
    </main>`;
  }

  /** @param {any} need @param {boolean} current */
  entry(need, current) {
    const { title, why } = told(need);
    return html`<li key=${need.id}><a href=${withQuery({ at: need.id })} data-row data-stay data-select aria-current=${current ? "true" : undefined} data-need=${need.what}>
      <${NeedSign} need=${need} /> <span class="plan-name">${need.plan?.slug}</span> <span class="anchor">${need.each?.step_anchor ?? ""}</span>
      <span class="what">${need.each?.kind ? html`<span class="faint">${need.each.kind} ${need.each.ordinal}</span> ` : ""}<${Said} text=${title} /></span><span class="why">${why}</span></a></li>`;
  }

  /** @param {any} need @param {number} place @param {number} total @param {Record<string, any>} plans @param {string} note */
  caseOf(need, place, total, plans, note) {
    const { plan, each, what } = need;
    const slug = plan?.slug ?? "";
    const whole = plans[plan?.plan_path];
    const step = whole?.steps?.find((/** @type {any} */ one) => one.anchor === (each?.parent_anchor ?? each?.step_anchor));
    return html`<p class="crumb"><a class="phone-only" href=${withQuery({ at: "" })}>‹ Review</a> <span class="faint num">${place + 1} of ${total}</span> <a href=${planAt(slug)}>${slug}</a></p>
      <h2>${each?.step_anchor && html`<a href=${stepAt(slug, each.step_anchor)}><span class="anchor">${each.step_anchor}</span></a> `}${each?.step_title ?? plan?.title ?? ""} ${each?.step_status && html`<span class="tag">${each.step_status.replace("_", " ")}</span>`}</h2>
      ${each?.kind && html`<p class="case-item"><span class="faint">${each.kind} ${each.ordinal}:</span> <${Said} text=${each.text} /></p>`}
      ${reasons(need)}
      ${each?.failed_checkpoints?.length > 0 && html`<h3>Failed checkpoints</h3>${each.failed_checkpoints.map((/** @type {any} */ one) => html`<div class="ran"><p><span class="faint">checkpoint ${one.ordinal}:</span> <${Said} text=${one.text} /></p><${Fold} label=${html`<code>${one.command}</code>`} open=${true}><pre tabindex="0">${one.output_tail}</pre><//></div>`)}`}
      ${each?.kind && html`<h3>Evidence</h3>${each.evidence ? html`<${Evidence} evidence=${each.evidence} />` : html`<p class="faint">none</p>`}`}
      ${each?.commit && diffOf(each)}
      ${what.startsWith("file_") && html`<${Loaded} path="state/diff" values=${{ plan: plan.plan_path }} draw=${(/** @type {any} */ data) => html`<${Patch} text=${data.diff} />`} />`}
      ${step?.artifacts?.length > 0 && html`<h3>Notes <span class="count">${step.artifacts.length}</span></h3><${Notes} plan=${plan.plan_path} notes=${step.artifacts} />`}
      ${this.decision(need, note)}`;
  }

  /** @param {any} need @param {string} note */
  decision(need, note) {
    const { plan, each, what } = need;
    const item = each?.kind ? { kind: each.kind, ordinal: each.ordinal } : {};
    const about = { plan, step: each?.step_anchor, ...item, reason: note, about: each?.text ?? each?.step_title };
    const above = each?.built_on ?? [];
    const commands = each?.kind ? [each.accept_command, !above.length && each.reject_command] : [each?.retry_command ?? each?.implement_command ?? need.command];
    const input = (/** @type {any} */ event) => this.setState({ note: event.target.value });
    return html`<div class="decision">
      ${above.length > 0 && html`<p class="notice"><span>It cannot be rejected while steps are built on it: ${above.map((/** @type {string} */ anchor, /** @type {number} */ at) => html`${at > 0 && ", "}<a href=${stepAt(plan?.slug ?? "", anchor)}>${anchor}</a>`)}. Reopen those first.</span></p>`}
      ${(each?.kind || what === "parked") && html`<label>Note<input type="text" data-note-field value=${note} onInput=${input} autocomplete="off" /></label>`}
      <div class="actions">
        ${each?.kind && !above.length && html`<${ActionButton} of="item" when="waiting" names=${["reject"]} ...${about} />`}
        ${each?.kind && html`<${ActionButton} of="item" when="waiting" names=${["accept"]} ...${about} />`}
        ${what === "parked" && html`<${ActionButton} of="step" when="parked" ...${about} /><${ActionButton} of="parked" when="parked" ...${about} />`}
        ${what === "paused" && html`<${ActionButton} of="plan" when="paused" plan=${plan} />`}</div>
      ${commands.filter(Boolean).map((/** @type {string} */ each) => html`<p><${Command} text=${each} /></p>`)}</div>`;
  }

  componentDidUpdate(before) {
    if (before.at !== this.props.at) this.setState({ note: "" });
    const plan = queue(this.props.overview, this.props.review).find((each) => each.id === this.last)?.plan;
    if (plan?.recorded && !this.props.plans[plan.plan_path]) live.watch(plan.plan_path);
  }
  componentDidMount() {
    this.componentDidUpdate(this.props);
  }
}

/** Why it waits, by whom and since when. @param {any} need */
function reasons({ each, what, words, plan }) {
  if (!each && what !== "paused") return html`<p>${words}</p>`;
  if (what === "deferred") return html`<p>deferred ${local(each.deferred_at)}${each.deferred_by ? ` by ${worker(each.deferred_by)}` : ""}${each.attempt ? ` (attempt ${each.attempt})` : ""}${each.reason ? html`: <q>${each.reason}</q>` : ""}</p>`;
  if (what === "unproven") return html`<p>It counts as completed, but no passing run and no person has proved it${each.reason ? html`: <q>${each.reason}</q>` : ""}</p>`;
  if (what === "parked") {
    return html`<p>parked ${local(each.parked_at)}: <q>${sentence(each.reason)}</q></p>
      <p class="faint">${many(each.attempts, "attempt")}, the last by ${worker(each.last_attempt.worktree)}: ${each.last_attempt.outcome ?? "still holds it"}${each.salvage_ref ? html`, its uncommitted work is saved as <code>${each.salvage_ref}</code>` : ""}</p>
      ${each.last_attempt.left.map((/** @type {any} */ note) => html`<p><span class="faint">${note.kind}:</span> ${note.summary}</p>`)}
      ${each.same_cause.length > 1 && html`<p class="faint">Parked for the same reason: ${each.same_cause.join(", ")}</p>`}`;
  }
  if (what === "question") return html`<p>${worker(each.claimed_by)} asks since ${local(each.asked_at)}: <q>${each.reason}</q></p><p class="faint">Answer it on the terminal of the run.</p>`;
  if (what === "audit") return html`<p><b>${each.recommendation}</b>: <q>${each.summary}</q> ${local(each.recorded_at)}</p>`;
  if (what === "paused") return html`<p>paused${plan.paused_by ? ` by ${worker(plan.paused_by)}` : ""} since ${local(plan.paused_at)}${plan.paused_reason ? html`: <q>${plan.paused_reason}</q>` : ""}</p>`;
  return html`<p>${words}</p>`;
}

/** @param {any} each */
function diffOf(each) {
  const stat = each.diffstat;
  const label = html`Diff of <code>${each.commit.slice(0, 10)}</code> ${stat && html`<span class="faint">${many(stat.files.length, "file")} <span class="num add">+${stat.insertions}</span> <span class="num del">−${stat.deletions}</span></span>`}`;
  return html`<${CommitDiff} hash=${each.commit} label=${label} open=${!matchMedia("(max-width: 900px)").matches} />`;
}
