// Search over what the page has: plans, steps, what waits, pages and actions.
import { dialogs, offered } from "./dialog.js";
import { worker } from "./format.js";
import { Component, html } from "./html.js";
import { go, plan as planAt, read, step as stepAt } from "./route.js";
import { store } from "./store.js";

const MOST = 12;
const PAGES = [["Now", "/"], ["Review", "/review"], ["Workers", "/workers"], ["Log", "/log"], ["About", "/about"]];

/** @typedef {{what: string, name: string, more: string, run: () => void}} Entry */

/** @returns {Entry[]} */
function entries() {
  const overview = store.data("overview");
  const plans = overview?.plans ?? [];
  const route = read(location);
  const found = PAGES.map(([name, url]) => ({ what: "page", name, more: "", run: () => go(url) }));
  const here = plans.find((/** @type {any} */ plan) => plan.slug === route.slug);
  if (here?.recorded) {
    for (const action of offered("plan", here.paused_at ? "paused" : "running")) found.push({ what: "action", name: action.button, more: here.slug, run: () => dialogs.ask(action, { plan: here }) });
  }
  for (const plan of plans) {
    found.push({ what: "plan", name: plan.slug, more: plan.title ?? "", run: () => go(planAt(plan.slug)) });
    const shown = store.data(`plan:${plan.plan_path}`);
    for (const step of shown?.steps ?? []) {
      const said = [step.title, worker(step.claimed_by), ...step.artifacts.map((/** @type {any} */ note) => note.summary)].filter(Boolean).join(" · ");
      found.push({ what: "step", name: `${plan.slug} ${step.anchor}`, more: said, run: () => go(stepAt(plan.slug, step.anchor)) });
    }
    for (const item of shown?.checklist_items ?? []) found.push({ what: "item", name: `${plan.slug} ${item.step_anchor}`, more: item.text, run: () => go(stepAt(plan.slug, item.step_anchor)) });
  }
  return found;
}

export class Palette extends Component {
  componentDidMount() {
    this.every = entries();
    this.setState({ text: "", at: 0 });
    this.box.showModal();
    this.box.querySelector("input")?.focus();
  }
  found() {
    const words = (this.state.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (/** @type {Entry} */ each) => words.every((word) => `${each.what} ${each.name} ${each.more}`.toLowerCase().includes(word));
    return (this.every ?? []).filter((each) => (words.length ? fits(each) : each.what !== "item")).slice(0, MOST);
  }
  /** @param {Entry | undefined} entry */
  choose(entry) {
    this.props.close();
    entry?.run();
  }
  /** @param {KeyboardEvent} event */
  press(event) {
    const found = this.found();
    const at = this.state.at ?? 0;
    if (event.key === "ArrowDown") this.setState({ at: Math.min(at + 1, found.length - 1) });
    else if (event.key === "ArrowUp") this.setState({ at: Math.max(at - 1, 0) });
    else if (event.key === "Enter") this.choose(found[at]);
    else return;
    event.preventDefault();
  }
  render({ close }, { text = "", at = 0 }) {
    const found = this.found();
    return html`<dialog ref=${(/** @type {any} */ box) => (this.box = box)} class="palette" aria-label="Search" data-dialog="palette" onCancel=${(/** @type {Event} */ event) => { event.preventDefault(); close(); }} onClick=${(/** @type {any} */ event) => event.target === this.box && close()}>
      <input type="text" role="combobox" aria-expanded="true" aria-controls="found" aria-autocomplete="list" aria-activedescendant=${found.length ? `found-${at}` : undefined} aria-label="Search plans, steps, items, pages" placeholder="plan, step, item, page" value=${text} autocomplete="off"
        onInput=${(/** @type {any} */ event) => this.setState({ text: event.target.value, at: 0 })} onKeyDown=${(/** @type {KeyboardEvent} */ event) => this.press(event)} />
      <ul id="found" role="listbox" aria-label="Found">${found.map((each, place) => html`<li id=${`found-${place}`} role="option" aria-selected=${place === at ? "true" : "false"} onClick=${() => this.choose(each)}>
        <span class="faint">${each.what}</span> <b>${each.name}</b> <span class="more">${each.more}</span></li>`)}</ul>
      ${!found.length && html`<p class="empty">Nothing here has these words. The past is in the log.</p>`}</dialog>`;
  }
}
