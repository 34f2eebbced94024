// The page: which view an address means, the bars around it, and what the tab says from afar.
import { About, keyTable, TokenForm } from "./about.js";
import { token } from "./api.js";
import { Dialog, dialogs } from "./dialog.js";
import { many } from "./format.js";
import { Component, html, render } from "./html.js";
import { keys } from "./keys.js";
import { live } from "./live.js";
import { LogPage } from "./log.js";
import { Now } from "./now.js";
import { Palette } from "./palette.js";
import { none, PlanPage, StepPage } from "./plan.js";
import { Review } from "./review.js";
import { follow, read } from "./route.js";
import { store } from "./store.js";
import { theme } from "./theme.js";
import { Workers } from "./workers.js";

/** A sentence for those who listen: at most one in so long. */
const QUIET_MS = 10_000;

class App extends Component {
  constructor() {
    super();
    this.state = { route: read(location), extra: "", spoken: "" };
    keys.show = (name) => this.setState({ extra: name });
  }

  componentDidMount() {
    store.onChange(() => {
      this.far();
      keys.follow_now();
      this.setState({});
    });
    addEventListener("popstate", () => this.setState({ route: read(location) }));
    addEventListener("keydown", (event) => keys.press(event));
    document.addEventListener("click", follow);
    store.heardEvents = (events) => this.listen(events);
  }

  componentDidUpdate(_, before) {
    const { route } = this.state;
    if (before.route === route || before.route.page + before.route.slug === route.page + route.slug) return;
    // A new page begins at its top, for the eye and for the reader.
    document.getElementById("main")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }

  /** What the tab's title says. */
  far() {
    const needs = store.needs();
    const name = this.state.route.slug || store.words?.repository || "";
    document.title = `${needs ? `(${needs}) ` : ""}${name ? `${name} · ` : ""}tugdeck`;
  }

  /** Events in a sentence, not more often than a person can hear. @param {any[]} events */
  listen(events) {
    this.heard = [...(this.heard ?? []), ...events].slice(-500);
    if (this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = 0;
      const done = this.heard.filter((/** @type {any} */ each) => each.kind === "complete").length;
      const said = [done && `${many(done, "step")} completed`, store.needs() > (this.told ?? 0) && `${store.needs()} for you`].filter(Boolean).join(", ");
      this.heard = [];
      this.told = store.needs();
      if (said && !store.frozen) this.setState({ spoken: said });
    }, QUIET_MS);
  }

  render(_, { route, extra, spoken }) {
    const { link, topics, events, saving } = store.shown;
    const overview = topics.overview?.data;
    const close = () => this.setState({ extra: "" });
    const state = !token() || link.state === "refused" ? "refused" : store.frozen ? "frozen" : link.state;
    document.documentElement.dataset.live = state;
    return html`<a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the content</a>
      ${topBar(overview, link, saving, state, route, () => keys.show("palette"), () => keys.show("help"))}
      ${banner(state, link)}
      ${state === "refused" ? html`<${TokenForm} why=${token() ? link.why : ""} />` : overview && store.words ? this.page(route, overview, topics, events, link) : html`<main id="main" class="page" tabindex="-1" aria-busy="true"><h1 class="hidden">tugdeck</h1></main>`}
      ${bottomBar(overview, route)}
      ${dialogs.open && html`<${Dialog} key=${dialogs.open.key} open=${dialogs.open} />`}
      ${extra === "palette" && html`<${Palette} close=${close} />`}
      ${extra === "help" && html`<${Help} close=${close} />`}
      <p class="hidden" role="status" aria-live="polite">${spoken}</p>`;
  }

  page(route, overview, topics, events, link) {
    const review = topics.review?.data;
    const query = route.query.toString();
    if (route.page === "now") return html`<${Now} overview=${overview} review=${review} events=${events} />`;
    if (route.page === "review") {
      const plans = Object.fromEntries(Object.entries(topics).filter(([name]) => name.startsWith("plan:")).map(([name, topic]) => [name.slice(5), topic.data]));
      return html`<${Review} overview=${overview} review=${review} at=${route.query.get("at") ?? ""} only=${route.query.get("plan") ?? ""} plans=${plans} />`;
    }
    if (route.page === "workers") return html`<${Workers} overview=${overview} />`;
    if (route.page === "log") return html`<${LogPage} overview=${overview} recent=${events} query=${query} />`;
    if (route.page === "about") return html`<${About} link=${link} />`;
    if (route.page === "none") return none("There is no such page.");
    const row = overview.plans.find((/** @type {any} */ plan) => plan.slug === route.slug);
    if (row?.recorded && this.watching !== row.plan_path) live.watch((this.watching = row.plan_path));
    const plan = row && topics[`plan:${row.plan_path}`]?.data;
    const page = route.page === "step" ? StepPage : PlanPage;
    return html`<${page} key=${route.slug} route=${route} row=${row} plan=${plan} events=${events} follows=${keys.following} />`;
  }
}

const PAGES = [["/", "Now", "now"], ["/review", "Review", "review"], ["/workers", "Workers", "workers"], ["/log", "Log", "log"]];
const SIGNS = { live: "●", catching: "◌", opening: "◌", lost: "○", frozen: "❄", refused: "○" };

function topBar(overview, link, saving, state, route, search, help) {
  const needs = overview ? overview.needs_you.reduce((/** @type {number} */ sum, /** @type {any} */ each) => sum + each.count, 0) : 0;
  return html`<header class="top"><a class="brand" href="/"><b>tugdeck</b> <span class="repo">${store.words?.repository ?? ""}</span></a>
    <nav class="pages" aria-label="Pages">${PAGES.map(([url, name, page]) => html`<a href=${url} aria-current=${route.page === page ? "page" : undefined}>${name}${page === "review" && needs > 0 && html` <span class="count">${needs}</span>`}</a>`)}</nav>
    <button type="button" class="search" aria-label="Search" onClick=${search}><span class="search-word">search</span> <kbd>Ctrl K</kbd></button>
    <span class="link" data-link=${state} role="status">${saving > 0 ? html`<span class="saving">saving…</span>` : html`<span aria-hidden="true">${SIGNS[state]}</span> ${state === "catching" || state === "opening" ? "catching up" : state === "lost" ? "not live" : state}`}</span>
    <a class="who" href="/about" aria-label=${`About you: ${store.words?.you ?? ""}, ${link.role}`}>${store.words?.you ?? ""} <span class="faint">${link.role ? `(${link.role})` : "about"}</span></a>
    <button type="button" class="icon" data-theme-button aria-label=${`Theme: ${theme.chosen()}`} onClick=${() => { theme.next(); store.change(); }}>◐</button>
    <button type="button" class="icon" aria-label="Keys" onClick=${help}>?</button></header>`;
}

/** Says plainly that what is shown is old. @param {string} state @param {any} link */
function banner(state, link) {
  if (state === "frozen") return html`<p class="banner" data-banner="frozen">Frozen: what is shown stays as it was. <kbd>z</kbd> goes on. <button type="button" class="quiet" onClick=${() => store.freeze()}>Go on</button></p>`;
  if (state !== "lost" || !link.heard) return state === "lost" && html`<p class="banner" data-banner="lost">Not connected. ${link.why} Trying again.</p>`;
  return html`<p class="banner" data-banner="lost" role="alert">Not live. ${link.why} What is shown is of <${Clock} at=${link.heard} />. Trying again. <button type="button" class="quiet" onClick=${() => live.open()}>Now</button></p>`;
}

/** @param {{at: number}} props */
function Clock({ at }) {
  const when = new Date(at);
  return html`<time datetime=${when.toISOString()}>${when.toTimeString().slice(0, 8)}</time>`;
}

/** @param {any} overview @param {any} route */
function bottomBar(overview, route) {
  const needs = overview ? overview.needs_you.reduce((/** @type {number} */ sum, /** @type {any} */ each) => sum + each.count, 0) : 0;
  const plan = route.slug ? `/p/${encodeURIComponent(route.slug)}` : overview?.plans[0] ? `/p/${encodeURIComponent(overview.plans[0].slug)}` : "/";
  const places = [["/", "Now", route.page === "now"], [plan, "Plan", route.page === "plan" || route.page === "step"], ["/review", needs ? html`Review <span class="count">${needs}</span>` : "Review", route.page === "review"], ["/workers", "Workers", route.page === "workers"], ["/log", "Log", route.page === "log"]];
  return html`<nav class="bottom" aria-label="Places">${places.map(([url, name, here]) => html`<a href=${url} aria-current=${here ? "page" : undefined}>${name}</a>`)}</nav>`;
}

class Help extends Component {
  componentDidMount() {
    this.box.showModal();
  }
  render({ close }) {
    return html`<dialog ref=${(/** @type {any} */ box) => (this.box = box)} class="dialog help" aria-labelledby="help-title" data-dialog="help" onCancel=${(/** @type {Event} */ event) => { event.preventDefault(); close(); }}><h2 id="help-title">Keys</h2>${keyTable()}
      <p class="faint">They can be switched off in <a href="/about" onClick=${close}>About</a>.</p><div class="dialog-buttons"><button type="button" onClick=${close}>Close</button></div></dialog>`;
  }
}

/** One notification when more needs you than before, if the browser allows it and the tab is hidden. */
function notify() {
  let before = -1;
  setInterval(() => {
    const now = store.needs();
    if (document.hidden && before >= 0 && now > before && "Notification" in window && Notification.permission === "granted") {
      new Notification("tugdeck", { body: `${now} for you`, tag: "tug-needs" });
    }
    if (store.link.state === "live") before = now;
    if (document.hidden) document.title = document.title.replace(/^(\(\d+\) )?/, now ? `(${now}) ` : "");
  }, 1000);
}

function start() {
  theme.apply();
  // What the page shows is on its way while its frame is drawn.
  if (token()) {
    live.start(read(location).slug);
    live.words();
    notify();
  }
  render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app")));
}

start();
