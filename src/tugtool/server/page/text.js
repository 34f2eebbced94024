// The agreed text beside its state: as text, with line numbers and a sign where something stands.
import { Evidence, Loaded, Patch } from "./diff.js";
import { local } from "./format.js";
import { html, Pure } from "./html.js";
import { Command, Sign } from "./parts.js";
import { go, step as stepAt, withQuery } from "./route.js";
import { store } from "./store.js";

export class TextView extends Pure {
  render({ row, plan, revision, file }) {
    const values = { plan: plan.plan_path };
    return html`<div class="filter">
        <${Loaded} path="plan/revisions" values=${values} again=${plan.plan_hash} draw=${(/** @type {any} */ data) => revisions(data.revisions, revision)} />
        <label class="check"><input type="checkbox" data-filter="file" checked=${Boolean(file)} onChange=${(/** @type {any} */ event) => go(withQuery({ file: event.target.checked ? "1" : "" }), true)} /> difference from the file</label></div>
      ${file ? html`<${Loaded} path="state/diff" values=${values} again=${row.file} draw=${difference} />`
        : html`<${Loaded} path="plan/text" values=${{ ...values, revision }} again=${plan.plan_hash} draw=${(/** @type {any} */ data) => html`<${Lines} text=${data.text} marks=${data.marks} steps=${plan.steps} items=${plan.checklist_items} slug=${row.slug} past=${Boolean(revision) && data.replaced_at !== null} />`} />`}`;
  }
}

/** @param {any[]} every @param {string} chosen */
function revisions(every, chosen) {
  const last = every.at(-1);
  return html`<label><span class="hidden">Revision</span><select data-filter="revision" value=${chosen || String(last.revision)} onChange=${(/** @type {any} */ event) => go(withQuery({ r: Number(event.target.value) === last.revision ? "" : event.target.value }), true)}>
    ${[...every].reverse().map((each) => html`<option value=${String(each.revision)}>${each === last ? "agreed" : "earlier"} text ${each.revision}, ${local(each.agreed_at, true)}</option>`)}</select></label>`;
}

/** @param {any} data */
function difference(data) {
  if (!data.changed) return html`<p class="empty calm">The file is the agreed text.</p>`;
  return html`${data.problem && html`<p class="refusal">${data.problem}</p>`}<${Patch} text=${data.diff} />
    <p class="faint">Accepting it is a person's decision:</p><p><${Command} text=${`tugcode diff ${data.plan_path}`} /></p>`;
}

/** Every line; lines of steps and items have the sign of their standing. */
class Lines extends Pure {
  constructor() {
    super();
    this.state = { open: 0 };
  }
  render({ text, marks, steps, items, slug, past }, { open }) {
    const standing = new Map(steps.flatMap((/** @type {any} */ step) => [step, ...step.substeps]).map((/** @type {any} */ step) => [step.anchor, step]));
    const status = new Map(items.map((/** @type {any} */ item) => [`${item.step_anchor} ${item.kind} ${item.ordinal}`, item]));
    const at = new Map(marks.map((/** @type {any} */ mark) => [mark.line, mark]));
    return html`${past && html`<p class="notice">An earlier text: its lines have no state.</p>`}<div class="text" role="table" aria-label="The agreed text">${text.replace(/\n$/, "").split("\n").map((/** @type {string} */ line, /** @type {number} */ n) => {
      const mark = past ? null : at.get(n + 1);
      const step = mark && standing.get(mark.anchor);
      const item = mark?.kind && status.get(`${mark.anchor} ${mark.kind} ${mark.ordinal}`);
      return html`<div class=${`line${mark && !mark.kind ? " head" : ""}`} role="row" data-line=${n + 1}><span role="cell" class="no num" aria-hidden="true">${n + 1}</span>
        <span role="cell" class="gutter">${mark && (mark.kind ? item && box(item, () => this.setState({ open: open === n + 1 ? 0 : n + 1 }), open === n + 1) : step && html`<a href=${stepAt(slug, step.parent_anchor ?? step.anchor)} aria-label=${`${step.anchor}: ${store.words.standings[step.standing].word}`}><${Sign} standing=${step.standing} status=${step.status} /></a>`)}</span>
        <span role="cell" class="content">${line || " "}${open === n + 1 && item?.evidence && html`<${Evidence} evidence=${item.evidence} />`}${item?.reason && html`<span class="you reason">${item.reason}</span>`}</span></div>`;
    })}</div>`;
  }
}

/** @param {any} item @param {() => void} toggle @param {boolean} open */
function box(item, toggle, open) {
  const standing = { completed: "completed", deferred: "deferred", in_progress: "at_work" }[item.status];
  if (!standing) return html`<span class="hidden">${item.status}</span>`;
  const sign = html`<${Sign} standing=${standing} word=${item.status.replace("_", " ")} />`;
  return item.evidence ? html`<button type="button" class="plain" aria-expanded=${open ? "true" : "false"} aria-label=${`${item.status}: evidence`} onClick=${toggle}>${sign}</button>` : sign;
}
