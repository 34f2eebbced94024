// Small parts that every page uses: signs, bars, names, things to copy.
import { duration, number, percent } from "./format.js";
import { Component, html, Pure } from "./html.js";
import { store } from "./store.js";

/** The sign and the word of a standing, or others in its colour. @param {{standing: string, status?: string, word?: string, sign?: string}} props */
export function Sign({ standing, status, word, sign }) {
  const said = store.words?.standings[standing] ?? { sign: "", word: standing };
  const shown = word ?? (standing === "at_work" && status === "claimed" ? "claimed" : said.word);
  return html`<span class="sign" data-standing=${standing} data-status=${status}
    ><span class="glyph" aria-hidden="true">${sign ?? said.sign}</span><span class="word">${shown}</span></span>`;
}

/** A bar of parts; a part that is there is never drawn as nothing. @param {{parts: [string, number][], total: number, label: string}} props */
export function Bar({ parts, total, label }) {
  let at = 0;
  const drawn = parts.filter(([, count]) => count > 0).map(([standing, count]) => {
    const width = total ? Math.max((count / total) * 100, 1) : 0;
    const rect = html`<rect class="part" data-standing=${standing} x=${at} y="0" width=${width} height="8" />`;
    at += width;
    return rect;
  });
  return html`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label=${label}>
    <rect class="track" width="100" height="8" />${drawn}</svg>`;
}

/** @param {any} plan a plan of the overview */
export function planBar(plan) {
  const { total, completed, held, parked } = plan.recorded ? plan.steps : { ...plan.steps, ...plan.items, held: 0, parked: 0 };
  const stale = plan.claims.filter((/** @type {any} */ claim) => claim.stale).length;
  const word = plan.recorded ? "steps" : "boxes";
  const parts = [["completed", completed], ["at_work", held - stale], ["stale", stale], ["parked", Math.max(0, Math.min(parked, total - completed - held))]];
  return html`<${Bar} parts=${parts} total=${total} label=${`${completed} of ${total} ${word}, ${percent(completed, total)} %`} />`;
}

/** The time that a lease still has. */
export class Lease extends Component {
  componentDidMount() {
    this.stop = store.onTick(() => this.left() !== this.shown && this.setState({}));
  }
  componentWillUnmount() {
    this.stop();
  }
  left() {
    return Math.max(0, Math.floor((Date.parse(this.props.until) - store.now()) / 1000));
  }
  render({ seconds }) {
    this.shown = this.left();
    const part = seconds ? Math.min(this.shown / seconds, 1) * 100 : 0;
    return html`<span class="lease" title=${this.props.until}>
      <svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="8" />
      <rect class="part" width=${part} height="8" /></svg>
      <span class="num">${this.shown ? duration(this.shown) : "over"}</span></span>`;
  }
}

/** Words that break only between them. @param {string} text */
function words(text) {
  return text.split(" ").map((word, at) => html`${at > 0 && " "}<span class="w">${word}</span>`);
}

/** A command, and a button that copies it. */
export class Command extends Pure {
  render({ text, label }) {
    const done = this.state.done === text;
    const copy = () => navigator.clipboard?.writeText(text).then(
      () => this.setState({ done: text }),
      () => this.setState({ done: null }),
    );
    return html`<span class="command"><code>${words(text)}</code>
      <button type="button" class="icon" data-copy=${text} onClick=${copy} aria-label=${label ?? `Copy: ${text}`}>${done ? "✓" : html`<svg class="glyph-copy" viewBox="0 0 16 16" width="14" height="14" aria-hidden="true"><path d="M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z" /></svg>`}</button></span>`;
  }
}

/** Text with `code` between backticks drawn as code; nothing else is read into it. @param {{text: string}} props */
export function Said({ text }) {
  const parts = text.split("`");
  if (parts.length % 2 === 0) return text;
  return parts.map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));
}

/** Steps by number, each a link if there is a place for it. @param {string[]} anchors */
export function numbers(anchors) {
  const shown = anchors.length > 5 ? anchors.slice(0, 4) : anchors;
  const rest = anchors.length - shown.length;
  return shown.map(number).join(", ") + (rest ? ` and ${rest} more` : "");
}

/** A heading with a number beside it. @param {{title: string, count?: number | string, id?: string, children?: any}} props */
export function Section({ title, count, id, children }) {
  const known = count !== undefined && count !== "";
  return html`<section class="section" aria-labelledby=${id}>
    <h2 id=${id}>${title}${known && html` <span class="count">${count}</span>`}</h2>${children}</section>`;
}

/** @param {{children?: any}} props */
export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

/** A list of files, or of whatever is long: open on demand. */
export class Fold extends Component {
  render({ label, open, children, onOpen }) {
    const shown = this.state.open ?? Boolean(open);
    const toggle = () => {
      this.setState({ open: !shown });
      if (!shown && onOpen) onOpen();
    };
    return html`<div class="fold"><button type="button" class="fold-head" aria-expanded=${shown ? "true" : "false"} onClick=${toggle}>
      <span class="chevron" aria-hidden="true">${shown ? "▾" : "▸"}</span> ${label}</button>
      ${shown && html`<div class="fold-body">${children}</div>`}</div>`;
  }
}
