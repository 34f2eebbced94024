// A plan: its header, its tabs, and the panel of a step beside them.
import { ActionButton } from "./dialog.js";
import { dollars, duration, grouped, local, percent, tally } from "./format.js";
import { Figures } from "./figures.js";
import { html, Pure } from "./html.js";
import { keys } from "./keys.js";
import { Log } from "./log.js";
import { MapView } from "./map.js";
import { paused } from "./needs.js";
import { Bar, Command, Empty, Sign } from "./parts.js";
import { RailView } from "./rail.js";
import { plan as planAt, TABS, withQuery } from "./route.js";
import { StepPanel } from "./step.js";
import { store } from "./store.js";
import { TextView } from "./text.js";
import { Timeline } from "./timeline.js";

/** The order in which standings are counted and drawn in bars. */
const ORDER = ["completed", "deferred", "at_work", "question", "stale", "parked", "ready", "blocked"];

const follow = () => keys.follow();

/** @param {any} plan */
export function counts(plan) {
  /** @type {Record<string, number>} */
  const found = {};
  for (const step of plan.steps) found[step.standing] = (found[step.standing] ?? 0) + 1;
  return found;
}

export class PlanPage extends Pure {
  render({ route, row, plan, events, follows }) {
    if (!row) return none(`There is no plan ${route.slug} here.`);
    if (!row.recorded) return unrecorded(row);
    if (!plan) return html`<main id="main" class="page" tabindex="-1" aria-busy="true"><h1>${row.slug}</h1></main>`;
    if (plan.refused) return none(plan.refused);
    // Not `&&`: an empty text has an `anchor` too, a method of all texts.
    const step = route.step ? plan.steps.find((/** @type {any} */ each) => each.anchor === top(route.step, plan)) : undefined;
    return html`<main id="main" class="page plan" tabindex="-1" data-plan=${row.slug}>
      ${header(row, plan)}
      <nav class="tabs" aria-label="Views of the plan">${TABS.map(([name, title], at) => html`
        <a href=${planAt(row.slug, name) + (step ? `?s=${encodeURIComponent(step.anchor)}` : "")} data-stay aria-current=${name === route.tab ? "page" : undefined} aria-keyshortcuts=${at + 1}>${title}</a>`)}</nav>
      <div class=${`split${step ? " open" : ""}`}>
        <div class="view" data-tab=${route.tab}>${view(route, row, plan, step, events, follows)}</div>
        ${step && html`<aside class="panel" aria-label=${`Step ${step.anchor}`}>
          <${StepPanel} key=${step.anchor} row=${row} plan=${plan} step=${step} close=${withQuery({ s: "" })} /></aside>`}
      </div></main>`;
  }
}

/** The step of a substep. @param {string} anchor @param {any} plan */
function top(anchor, plan) {
  const found = plan.steps.find((/** @type {any} */ step) => step.substeps.some((/** @type {any} */ each) => each.anchor === anchor));
  return found?.anchor ?? anchor;
}

function view(route, row, plan, step, events, follows) {
  const query = route.query;
  if (route.tab === "map") return html`<${MapView} steps=${plan.steps} slug=${row.slug} selected=${step?.anchor ?? ""} />`;
  if (route.tab === "text") return html`<${TextView} row=${row} plan=${plan} revision=${query.get("r") ?? ""} file=${query.get("file") ?? ""} />`;
  if (route.tab === "time") return html`<${Timeline} plan=${plan} slug=${row.slug} by=${query.get("by") ?? "worker"} selected=${step?.anchor ?? ""} />`;
  if (route.tab === "log") return html`<${Log} key=${row.plan_path} plan=${row} plans=${[row]} recent=${events} query=${query.toString()} />`;
  if (route.tab === "figures") return html`<${Figures} plan=${plan} row=${row} />`;
  return html`<${RailView} steps=${plan.steps} slug=${row.slug} selected=${step?.anchor ?? ""} show=${query.get("show") ?? ""} text=${query.get("q") ?? ""} follows=${follows} follow=${follow} />`;
}

/** @param {any} row @param {any} plan */
function header(row, plan) {
  const found = counts(plan);
  const { completed_steps: done, total_steps: total } = plan;
  const deferred = plan.steps.reduce((/** @type {number} */ sum, /** @type {any} */ step) => sum + tally(step.rolled_up).deferred, 0);
  const parts = ORDER.slice(0, 6).map((name) => [name, found[name] ?? 0]);
  const facts = [
    plan.elapsed_seconds !== null && duration(plan.elapsed_seconds),
    plan.tokens !== null && `${grouped(plan.tokens)} tokens`,
    dollars(plan.cost_microdollars),
  ].filter(Boolean);
  return html`<header class="plan-head">
    <h1><span class="slug">${row.slug}</span> <span class="plan-title">${plan.phase_title ?? ""}</span></h1>
    <div class="plan-actions"><${ActionButton} names=${["pause", "resume"]} of="plan" when=${plan.paused_at ? "paused" : "running"} plan=${row} seq=${store.seq} /></div>
    <div class="plan-progress"><${Bar} parts=${parts} total=${total} label=${`${done} of ${total} steps completed`} />
      <b class="num" data-count="completed">${done}/${total}</b> <span class="faint">${total === 1 ? "step" : "steps"}, ${percent(done, total)} %</span>
      <ul class="facts">${["at_work", "question", "stale", "parked", "ready", "blocked"].filter((name) => found[name]).map((name) => html`
        <li data-count=${name}><${Sign} standing=${name} word=${`${found[name]} ${store.words.standings[name].word}`} /></li>`)}
        ${deferred > 0 && html`<li data-count="deferred"><${Sign} standing="deferred" word=${`${deferred} ${deferred === 1 ? "item" : "items"} deferred`} /></li>`}
        ${facts.map((fact) => html`<li class="faint num wide-only">${fact}</li>`)}</ul></div>
    ${notices(row, plan)}</header>`;
}

/** @param {any} row @param {any} plan */
function notices(row, plan) {
  const said = [];
  if (plan.paused_at) said.push(html`<p class="notice" data-notice="paused"><${Sign} standing="stale" sign="‖" word=${paused(plan)} /> since ${local(plan.paused_at)}. Nothing new is begun.</p>`);
  if (["changed", "gone", "unreadable", "renamed"].includes(row.file) && row.status === "active") {
    said.push(html`<p class="notice" data-notice="file"><span class="sign" data-standing="stale"><span class="glyph" aria-hidden="true">≠</span></span>
      ${sentence_of(row.file)} <a href=${`${planAt(row.slug, "text")}?file=1`}>See the difference</a> <${Command} text=${`tugcode diff ${row.slug}`} /></p>`);
  }
  if (plan.merged_commit) said.push(html`<p class="notice" data-notice="merged"><${Sign} standing="completed" word="merged" /> as <code>${plan.merged_commit.slice(0, 10)}</code></p>`);
  if (plan.run_since) said.push(html`<p class="notice calm" data-notice="run">A run is at work since ${local(plan.run_since)}</p>`);
  else if (plan.last_run && plan.status === "active") {
    const { status, ended_at: at, reason } = plan.last_run;
    said.push(html`<p class="notice" data-notice="run">The last run ${status === "died" ? "died about" : "stopped at"} ${local(at)}: ${reason ?? status.replaceAll("_", " ")}</p>`);
  }
  return said;
}

/** @param {string} file */
function sentence_of(file) {
  const [one] = store.words.needs[`file_${file}`] ?? [""];
  return `${one.charAt(0).toUpperCase()}${one.slice(1)}.`;
}

/** @param {any} row */
function unrecorded(row) {
  const { completed, total } = row.items;
  return html`<main id="main" class="page plan" tabindex="-1"><header class="plan-head"><h1><span class="slug">${row.slug}</span> <span class="plan-title">${row.title ?? ""}</span></h1>
    <p>Work on this plan has not begun: ${completed}/${total} boxes are ticked in its text.</p>
    <p><${Command} text=${`tugcode implement ${row.slug}`} /></p></header></main>`;
}

/** @param {string} said */
export function none(said) {
  return html`<main id="main" class="page" tabindex="-1"><h1>Not here</h1><${Empty}>${said} <a href="/">Back to Now</a><//></main>`;
}

/** A step as a page of its own, for narrow screens and for links. */
export class StepPage extends Pure {
  render({ route, row, plan }) {
    if (!row) return none(`There is no plan ${route.slug} here.`);
    if (!plan) return html`<main id="main" class="page" tabindex="-1" aria-busy="true"><h1>${route.step}</h1></main>`;
    if (plan.refused) return none(plan.refused);
    const step = plan.steps.find((/** @type {any} */ each) => each.anchor === top(route.step, plan));
    if (!step) return none(`${row.slug} has no step ${route.step}.`);
    return html`<main id="main" class="page step-page" tabindex="-1" data-plan=${row.slug}>
      <p class="crumb"><a href=${planAt(row.slug)}>‹ ${row.slug}</a></p>
      <${StepPanel} key=${step.anchor} row=${row} plan=${plan} step=${step} level=${1} /></main>`;
  }
}


