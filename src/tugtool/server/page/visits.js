// Since you were last here: a mark in this browser, and what the events after it add up to.
import { get } from "./api.js";
import { local, Since } from "./format.js";
import { Component, html } from "./html.js";
import { store } from "./store.js";

const MARK = "tug.visit";
/** A tab that was hidden for so long was left. */
const AWAY_MS = 10 * 60_000;
/** A visit sooner than this is the same visit. */
const SAME_MS = 60_000;

/** @typedef {{epoch: string, seq: number, at: number}} Mark */

class Visits {
  constructor() {
    /** Where the last visit ended. @type {Mark | null} */
    this.last = read();
    /** @type {any} */
    this.found = null;
    this.folded = false;
    this.asked = false;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.leave() : this.come()));
    addEventListener("pagehide", () => this.leave());
  }

  /** Remember what has been seen. */
  leave() {
    if (store.link.state !== "live") return;
    this.left = Date.now();
    write({ epoch: store.epoch, seq: store.seq, at: this.left });
  }

  come() {
    if (!this.left || Date.now() - this.left < AWAY_MS) return;
    this.last = read();
    this.asked = false;
    this.folded = false;
    this.ask();
  }

  async ask() {
    if (this.asked) return;
    this.asked = true;
    if (!this.last) return this.leave();
    if (Date.now() - this.last.at < SAME_MS) return;
    const { epoch, seq } = this.last;
    this.found = await get("since", { epoch, seq }).catch(() => null);
    store.change();
  }

  read() {
    this.folded = !this.folded;
    if (this.folded) this.leave();
    store.change();
  }
}

/** @returns {Mark | null} */
function read() {
  try {
    return JSON.parse(localStorage.getItem(MARK) ?? "null");
  } catch {
    return null;
  }
}

/** @param {Mark} mark */
function write(mark) {
  localStorage.setItem(MARK, JSON.stringify(mark));
}

export const visits = new Visits();

export class SinceLast extends Component {
  componentDidMount() {
    visits.ask();
  }
  render() {
    const { found, last, folded } = visits;
    if (!found || !last || (found.known && !found.events)) return null;
    const at = new Date(last.at).toISOString();
    if (folded) return html`<section class="since folded"><h2>Since ${local(at)}</h2><button type="button" class="quiet" onClick=${() => visits.read()}>Show</button></section>`;
    if (!found.known) {
      return html`<section class="since" data-since="unknown"><h2>Since ${local(at)}</h2>
        <p>The record was replaced, so what changed is not known.</p>${done()}</section>`;
    }
    return html`<section class="since" data-since=${found.events} aria-labelledby="since">
      <h2 id="since">Since ${local(at)} <span class="faint">(<${Since} at=${at} />)</span></h2>
      <ul>${found.counts.map((/** @type {any} */ each) => html`<li data-what=${each.what}>${big(each.words)}</li>`)}
        ${!found.counts.length && html`<li>${found.events} events, nothing that changes the plans</li>`}</ul>
      ${done()}</section>`;
  }
}

/** The number large, the word small. @param {string} words */
function big(words) {
  const [first, ...rest] = words.split(" ");
  return html`<b class="num">${first}</b> <span>${rest.join(" ")}</span>`;
}

function done() {
  return html`<button type="button" class="quiet" onClick=${() => visits.read()}>Read</button>`;
}
