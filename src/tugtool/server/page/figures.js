// Figures: times, tokens and costs of a plan and of each step; also for paper.
import { Loaded } from "./diff.js";
import { dollars, duration, grouped, number } from "./format.js";
import { html, Pure } from "./html.js";
import { Sign } from "./parts.js";
import { step as stepAt } from "./route.js";

export class Figures extends Pure {
  render({ plan, row }) {
    return html`<${Loaded} path="state/stats" values=${{ plan: plan.plan_path }} again=${plan.updated_at} draw=${(/** @type {any} */ data) => drawn(data.plans[0], plan, row)} />`;
  }
}

/** @param {any} stats @param {any} plan @param {any} row */
function drawn(stats, plan, row) {
  const standing = new Map(plan.steps.map((/** @type {any} */ step) => [step.anchor, step]));
  const items = Object.values(stats.items).reduce((/** @type {any} */ sum, /** @type {any} */ kind) => ({ done: sum.done + kind.completed, all: sum.all + kind.open + kind.in_progress + kind.completed + kind.deferred }), { done: 0, all: 0 });
  const most = Math.max(...stats.steps.map((/** @type {any} */ step) => step.working_seconds + step.waiting_seconds), 1);
  return html`<div class="figures"><dl class="numbers">
      ${figure("steps", `${stats.steps_by_status.completed}/${plan.total_steps}`)}${figure("items", `${items.done}/${items.all}`)}
      ${figure("wall", duration(stats.wall_seconds))}${figure("worked", duration(stats.working_seconds))}${figure("waited", duration(stats.waiting_seconds))}
      ${figure("parallelism", stats.parallelism === null ? null : stats.parallelism.toFixed(2))}${figure("attempts", stats.attempts)}${figure("taken over", stats.reclaims)}
      ${figure("tokens", stats.tokens === null ? null : grouped(stats.tokens))}${figure("cost", stats.cost_microdollars === null ? null : dollars(stats.cost_microdollars))}</dl>
    <div class="scroll" role="region" aria-label="Figures of each step" tabindex="0"><table><thead><tr><th scope="col">step</th><th scope="col"><span class="hidden">standing</span></th><th scope="col">title</th><th scope="col" class="wide">worked, waited</th><th scope="col" class="num">worked</th><th scope="col" class="num">waited</th><th scope="col" class="num">attempts</th><th scope="col" class="num">tokens</th><th scope="col" class="num">cost</th></tr></thead>
      <tbody>${stats.steps.map((/** @type {any} */ step) => line(step, standing.get(step.anchor), row.slug, most))}</tbody></table></div>
    <p class="faint below">Attempts: ${Object.entries(stats.attempts_by_outcome).filter(([, n]) => n).map(([name, n]) => `${n} ${name}`).join(", ") || "none"}.</p></div>`;
}

/** @param {string} name @param {any} value */
function figure(name, value) {
  return value !== null && html`<div data-figure=${name}><dt>${name}</dt><dd class="num">${value}</dd></div>`;
}

/** @param {any} step @param {any} shown @param {string} slug @param {number} most */
function line(step, shown, slug, most) {
  const [work, wait] = [step.working_seconds, step.waiting_seconds].map((each) => (each / most) * 100);
  return html`<tr key=${step.anchor} data-step=${step.anchor}><th scope="row"><a href=${stepAt(slug, step.anchor)} data-row>${number(step.anchor)}</a></th>
    <td>${shown && html`<${Sign} standing=${shown.standing} status=${shown.status} />`}</td><td class="title">${step.title}</td>
    <td class="wide"><svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="part worked" width=${work} height="8" /><rect class="part waited" x=${work} width=${wait} height="8" /></svg></td>
    ${[["worked", duration(step.working_seconds)], ["waited", duration(step.waiting_seconds)], [step.attempts === 1 ? "attempt" : "attempts", step.attempts], ["tokens", step.tokens === null ? "" : grouped(step.tokens)], ["", step.cost_microdollars === null ? "" : dollars(step.cost_microdollars)]].map(([name, each]) => html`<td class=${each === "0s" || !each ? "num zero" : "num"} data-name=${name}>${each}</td>`)}</tr>`;
}
