// A step: who holds it, why it stands so, its checklist with evidence, its attempts, notes and diff.
import { ActionButton } from "./dialog.js";
import { CommitDiff, Evidence, Loaded, Notes, Transcripts } from "./diff.js";
import { between, dollars, duration, grouped, local, number, sentence, Since, tally, worker } from "./format.js";
import { html, Pure } from "./html.js";
import { EventLine } from "./now.js";
import { Bar, Command, Fold, Lease, Said, Sign } from "./parts.js";
import { store } from "./store.js";

const KINDS = { task: "Tasks", test: "Tests", checkpoint: "Checkpoints" };

export class StepPanel extends Pure {
  render({ row, plan, step, close, level = 2 }) {
    const about = html`<span class="anchor">${step.anchor}</span> ${step.title}`;
    return html`<article class="step" data-step=${step.anchor} data-standing=${step.standing} data-status=${step.status}>
      <div class="step-head"><${`h${level}`}>${about}<//>
        ${close && html`<a class="icon close" href=${close} data-stay aria-label="Close the panel">✕</a>`}</div>
      <p class="step-state"><${Sign} standing=${step.standing} status=${step.status} />${holder(step)}</p>
      ${step.question && html`<p class="notice">${step.question}</p>`}
      ${section("Why", "", html`<${Why} plan=${plan.plan_path} step=${step} />`, level)}
      ${checklist(row, plan, step, level)}
      ${attempts(step, level)}
      ${step.artifacts.length > 0 && section("Notes", step.artifacts.length, html`<${Notes} plan=${plan.plan_path} notes=${step.artifacts} />`, level)}
      ${step.commit_hash && section("Diff", "", html`<${CommitDiff} hash=${step.commit_hash} />`, level)}
      ${step.attempts.length > 0 && section("Transcripts", "", html`<${Fold} label="What its agents got and printed">
        <${Transcripts} plan=${plan.plan_path} step=${step.anchor} again=${`${step.attempt} ${step.role}`} /><//>`, level)}
      ${section("Log", "", html`<${Fold} label="Events of the step"><${Loaded} path="events" values=${{ plan: plan.plan_path, step: step.anchor, limit: 100, quiet: true }} again=${step}
        draw=${(/** @type {any} */ data) => html`<ol class="events narrow">${[...data.events].reverse().map((/** @type {any} */ event) => html`<${EventLine} key=${event.seq} event=${event} slug=${row.slug} bare=${true} />`)}</ol>`} /><//>`, level)}
      <div class="actions">
        <${ActionButton} of="parked" when=${step.standing} plan=${row} step=${step.anchor} about=${step.title} />
        <${ActionButton} of="step" when=${step.standing} plan=${row} step=${step.anchor} about=${step.title} /></div>
    </article>`;
  }
}

/** @param {string} title @param {any} count @param {any} inner @param {number} level of the heading above */
function section(title, count, inner, level) {
  return html`<section class="part" data-section=${title.toLowerCase()} tabindex="-1"><${`h${level + 1}`} class="part-head">${title}${count !== "" && html` <span class="count">${count}</span>`}<//>${inner}</section>`;
}

/** Who holds it, since when and until when; or what it came to. @param {any} step */
function holder(step) {
  const said = [];
  if (step.claimed_by) {
    const last = step.attempts.at(-1);
    said.push(html`<b>${worker(step.claimed_by)}</b>`);
    if (step.role) said.push(html`<span>${step.role} <${Since} at=${step.role_since} /></span>`);
    said.push(html`<span>attempt ${step.attempt} for <${Since} at=${step.claimed_at} /></span>`);
    said.push(html`<span class="leased">lease <${Lease} until=${step.lease_expires_at} seconds=${last?.lease_seconds ?? 0} /></span>`);
    said.push(html`<span class="faint">last sign <${Since} at=${step.heartbeat_at} after=" ago" /></span>`);
  } else if (step.completed_at) {
    said.push(html`<span>by <b>${worker(step.completed_by)}</b></span>`, html`<time datetime=${step.completed_at}>${local(step.completed_at)}</time>`);
    if (step.commit_hash) said.push(html`<code>${step.commit_hash.slice(0, 10)}</code>`);
    if (step.complete_reason) said.push(html`<span class="you">forced: ${step.complete_reason}</span>`);
  }
  return said;
}

/** The sentences of `tugcode why`, asked again when the step changes. */
class Why extends Pure {
  render({ plan, step }) {
    return html`<${Loaded} path="state/why" values=${{ plan, step: step.anchor }} again=${step} draw=${(/** @type {any} */ data) => html`
      <div class="why-text">${data.sentences.map((/** @type {string} */ each) => html`<p><${Said} text=${sentence(each).replace(/\b([0-9a-f]{10})[0-9a-f]{30}\b/g, "$1")} /></p>`)}
      ${data.frees.length > 0 && html`<ul>${data.frees.map((/** @type {string} */ each) => free(sentence(each)))}</ul>`}</div>`} />`;
  }
}

/** A way to free it; a command at its end can be copied. @param {string} said */
function free(said) {
  const at = said.indexOf(": tugcode ");
  if (at < 0) return html`<li>${said}</li>`;
  return html`<li>${said.slice(0, at + 1)} <${Command} text=${said.slice(at + 2)} /></li>`;
}

/** @param {any} row @param {any} plan @param {any} step @param {number} level */
function checklist(row, plan, step, level) {
  const { completed, deferred, total } = tally(step.rolled_up);
  const family = [step, ...step.substeps];
  const bar = html`<${Bar} parts=${[["completed", completed], ["deferred", deferred]]} total=${total} label=${`${completed} of ${total} items completed`} />`;
  return section("Checklist", `${completed}/${total}`, html`${bar}${family.map((each) => {
    const items = plan.checklist_items.filter((/** @type {any} */ item) => item.step_anchor === each.anchor);
    return html`${each !== step && html`<${`h${level + 2}`} class="substep-head" data-standing=${each.standing}><${Sign} standing=${each.standing} status=${each.status} /> ${number(each.anchor)} ${each.title}<//>`}
      ${Object.entries(KINDS).map(([kind, title]) => list(row, title, items.filter((/** @type {any} */ item) => item.kind === kind), each, each === step ? level + 2 : level + 3))}`;
  })}`, level);
}

/** What may be decided about an item: it cannot be rejected while steps are built on it. @param {any} row @param {any} item */
function verdicts(row, item) {
  const same = (/** @type {any} */ each) => each.plan_path === row.plan_path && each.step_anchor === item.step_anchor && each.kind === item.kind && each.ordinal === item.ordinal;
  return store.data("review")?.deferred_items.find(same)?.built_on.length ? ["accept"] : undefined;
}

/** @param {any} row @param {string} title @param {any[]} items @param {any} step @param {number} level */
function list(row, title, items, step, level) {
  if (!items.length) return null;
  return html`<${`h${level}`} class="kind-head">${title}<//><ul class="items">${items.map((item) => html`<li key=${`${item.kind}${item.ordinal}`} data-item=${`${item.kind}.${item.ordinal}`} data-status=${item.status}>
    <span class="box" aria-hidden="true">${store.words.boxes[item.status]}</span><span class="hidden">${item.status.replace("_", " ")}: </span>
    <span class="item-text"><span class="faint num">${item.ordinal}</span> <${Said} text=${item.text} />
      ${item.reason && html`<span class="you reason">${item.reason}</span>`}
      ${item.status === "deferred" && html`<span class="item-actions"><${ActionButton} of="item" when="waiting" names=${verdicts(row, item)} plan=${row} step=${step.anchor} kind=${item.kind} ordinal=${item.ordinal} about=${item.text} /></span>`}
      ${item.evidence && html`<${Fold} label=${proof(item.evidence)}><${Evidence} evidence=${item.evidence} /><//>`}</span></li>`)}</ul>`;
}

/** The evidence in a line. @param {any} evidence */
function proof({ passed, commands, judged, commit, stale }) {
  const last = commands.at(-1);
  const how = judged ? `judged by the ${judged.role}` : last ? `exit ${last.exit_status}, ${last.duration_seconds.toFixed(1)} s` : "no command ran";
  return html`<span class=${passed ? "good" : "bad"}>${passed ? "proved" : "failed"}</span> <span class="faint">${how}${commit ? `, at ${commit.slice(0, 7)}` : ""}</span>${stale && html` <b class="stale-mark">⚠ stale</b>`}`;
}

/** @param {any} step @param {number} level */
function attempts(step, level) {
  if (!step.attempts.length) return null;
  return section("Attempts", step.attempts.length, html`<ol class="attempts">${step.attempts.map((/** @type {any} */ each) => html`<li key=${each.number} data-attempt=${each.number} data-outcome=${each.outcome}>
    <p><span class="num">${each.number}</span> <b>${each.outcome ?? (step.standing === "stale" ? "stale" : "running")}</b> <span>${worker(each.worktree)}</span>
      <span class="num faint">${each.ended_at ? duration(between(each.claimed_at, each.ended_at)) : html`<${Since} at=${each.claimed_at} />`}</span>
      ${each.tokens !== null && html`<span class="num faint">${grouped(each.tokens)} tokens</span>`}
      ${each.cost_microdollars !== null && html`<span class="num faint">${dollars(each.cost_microdollars)}</span>`}</p>
    ${each.salvage_ref && salvage(each.salvage_ref)}</li>`)}</ol>`, level);
}

/** What a dead worker left, and how to get it. @param {string} ref */
function salvage(ref) {
  const name = ref.replace(/^refs\/tug\/salvage\//, "");
  return html`<div class="salvage" data-salvage=${ref}><${Fold} label=${html`saved: <code>${ref}</code>`}>
    ${store.words.salvage.map((/** @type {string} */ each) => html`<p><${Command} text=${each.replace("{ref}", name)} /></p>`)}
    <${Loaded} path="worktree/salvage/show" values=${{ ref: name }} draw=${(/** @type {any} */ data) => html`<ul class="files">${data.files.map((/** @type {any} */ file) => html`<li><code>${file.path}</code> <span class="num add">+${file.insertions ?? 0}</span> <span class="num del">−${file.deletions ?? 0}</span> <span class="faint">${file.status.replace("_", " ")}</span></li>`)}</ul>`} /><//></div>`;
}


