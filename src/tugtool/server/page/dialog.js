// What a person may do: offered as the server says, asked about in a dialog, done once.
import { post } from "./api.js";
import { local, sentence } from "./format.js";
import { Component, html, Pure } from "./html.js";
import { Command, Said } from "./parts.js";
import { store } from "./store.js";

/** @typedef {{plan: any, step?: string, kind?: string, ordinal?: number, reason?: string, about?: string}} Target */

/** A word for a shell, quoted where that is needed. @param {string} word */
export function quoted(word) {
  return /^[A-Za-z0-9._/+@%=:,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The command that does the same. @param {any} action @param {Target} target @param {string} reason */
export function commandOf(action, target, reason) {
  const values = { plan: target.plan.slug, step: target.step, kind: target.kind, ordinal: target.ordinal, reason: reason || "WHY" };
  const template = action.command + (reason && action.with_reason ? action.with_reason : "");
  return template.replace(/\{(\w+)\}/g, (/** @type {string} */ _, /** @type {string} */ name) => (name === "reason" ? `'${String(values.reason).replaceAll("'", "'\\''")}'` : quoted(String(values[name]))));
}

/** @param {string} template @param {Target} target */
function filled(template, target) {
  const values = { plan: target.plan.slug, step: target.step, kind: target.kind, ordinal: target.ordinal };
  return template.replace(/\{(\w+)\}/g, (/** @type {string} */ _, /** @type {string} */ name) => String(values[name]));
}

/** The actions for something that stands like this. @param {string} of @param {string} when @param {string[]} [names] */
export function offered(of, when, names) {
  if (store.shown.link.role !== "operator") return [];
  return store.words.actions.filter((/** @type {any} */ each) => each.of === of && each.when.includes(when) && (!names || names.includes(each.name)));
}

class Dialogs {
  constructor() {
    /** @type {{action: any, target: Target, seq: number, key: string} | null} */
    this.open = null;
    this.said = "";
  }
  /** @param {any} action @param {Target} target */
  ask(action, target) {
    this.open = { action, target, seq: store.seq, key: newKey() };
    this.back = /** @type {HTMLElement | null} */ (document.activeElement);
    store.change();
  }
  close() {
    this.open = null;
    store.change();
    requestAnimationFrame(() => this.back?.isConnected && this.back.focus());
  }
}

export const dialogs = new Dialogs();

function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((each) => each.toString(16).padStart(2, "0")).join("");
}

/** The buttons of what may be done. */
export class ActionButton extends Pure {
  render({ of, when, names, plan, step, kind, ordinal, reason, about }) {
    const target = { plan, step, kind, ordinal, reason, about };
    return offered(of, when, names).map((/** @type {any} */ action) => html`<button type="button" class=${action.severe ? "severe" : action.name === "accept" ? "primary" : ""}
      data-action=${action.name} onClick=${() => dialogs.ask(action, target)}>${action.button}</button>`);
  }
}

/** The open dialog, if there is one. */
export class Dialog extends Component {
  componentDidMount() {
    const { action, target } = this.props.open;
    this.setState({ reason: target.reason ?? "", seq: this.props.open.seq, key: this.props.open.key });
    this.box.showModal();
    // What takes something away never has the focus at first.
    const first = action.reason === "none" ? (action.severe ? ".cancel" : ".do") : action.reason === "optional" ? ".do" : "input";
    this.box.querySelector(first)?.focus();
  }

  /** @param {Event} event */
  async submit(event) {
    event.preventDefault();
    const { action, target } = this.props.open;
    const { seq, key } = this.state;
    const reason = (this.state.reason ?? "").trim();
    if (action.reason === "required" && !reason) return this.setState({ problem: { message: "Say why: it is recorded, and shown to the next worker." } });
    this.setState({ busy: true, problem: null });
    const values = { plan: target.plan.plan_path, ...action.fields };
    if (target.step) values.step = target.step;
    if (target.kind) Object.assign(values, { kind: target.kind, ordinal: target.ordinal });
    if (reason) values[action.reason_field] = reason;
    try {
      const done = await post(action.path, values, { seq, key });
      store.save(done.seq);
      dialogs.said = `${action.name}: done`;
      dialogs.close();
    } catch (error) {
      this.setState({ busy: false, problem: error, key: newKey() });
      if (error.code === "E106") this.setState({ seq: store.seq });
    }
  }

  render({ open }, { reason = open.target.reason ?? "", problem, busy }) {
    const { action, target } = open;
    const required = action.reason === "required";
    return html`<dialog ref=${(/** @type {any} */ box) => (this.box = box)} class="dialog" aria-labelledby="dialog-title" data-dialog=${action.name} onCancel=${(/** @type {Event} */ event) => { event.preventDefault(); dialogs.close(); }}>
      <form onSubmit=${(/** @type {Event} */ event) => this.submit(event)} noValidate>
        <h2 id="dialog-title">${filled(action.title, target)}</h2>
        ${target.about && html`<p class="about"><${Said} text=${target.about} /></p>`}
        <p>${action.what}</p>
        ${action.reason !== "none" && html`<label>${action.reason_field === "note" ? "Note" : "Reason"}${required ? "" : " (optional)"}
          <input type="text" name="reason" value=${reason} aria-required=${required ? "true" : "false"} autocomplete="off" onInput=${(/** @type {any} */ event) => this.setState({ reason: event.target.value })} /></label>`}
        <p class="same"><span class="faint">The same in a shell:</span> <${Command} text=${commandOf(action, target, reason.trim())} /></p>
        ${problem && html`<div class="refusal" role="alert"><p>${sentence(problem.message)}${problem.code ? ` (${problem.code})` : ""}</p>
          ${problem.code === "E106" && this.changes(open)}
          ${problem.hint && html`<p><${Command} text=${problem.hint} /></p>`}</div>`}
        <div class="dialog-buttons"><button type="button" class="cancel" onClick=${() => dialogs.close()}>Cancel</button>
          <button type="submit" class=${`do ${action.severe ? "severe" : "primary"}`} data-do=${action.name} disabled=${busy}>${busy ? "Saving…" : action.button.replace("…", "")}</button></div>
      </form></dialog>`;
  }

  /** What changed since the thing was shown. @param {any} open */
  changes({ target, seq }) {
    const found = store.events.filter((each) => each.seq > seq && each.plan_path === target.plan.plan_path && (!target.step || each.step_anchor === target.step)).slice(-5);
    return html`<ul>${found.map((each) => html`<li>${local(each.at)} ${each.step_anchor ?? ""} ${sentence(each.words)}</li>`)}</ul><p>Look again; a second try is about what is shown now.</p>`;
  }
}
