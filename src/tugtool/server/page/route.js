// Addresses: every view is a link. One page, and the browser's own history.

export const TABS = [
  ["rail", "Rail", ""],
  ["map", "Map", "/map"],
  ["text", "Text", "/text"],
  ["time", "Timeline", "/time"],
  ["log", "Log", "/log"],
  ["figures", "Figures", "/figures"],
];
const PAGES = ["review", "workers", "log", "about"];

/** @typedef {{page: string, slug: string, tab: string, step: string, query: URLSearchParams}} Route */

/** @param {Location | URL} place @returns {Route} */
export function read(place) {
  const parts = place.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  const query = new URLSearchParams(place.search);
  const none = { page: "none", slug: "", tab: "", step: "", query };
  if (!parts.length) return { ...none, page: "now" };
  if (parts[0] === "p" && parts[1]) {
    const plan = { ...none, page: "plan", slug: parts[1], tab: "rail", step: query.get("s") ?? "" };
    if (parts[2] === "s" && parts[3]) return { ...plan, page: "step", step: parts[3] };
    if (plan.step && narrow()) return { ...plan, page: "step" };
    if (!parts[2]) return plan;
    return TABS.some(([name]) => name === parts[2]) ? { ...plan, tab: parts[2] } : none;
  }
  return PAGES.includes(parts[0]) && parts.length === 1 ? { ...none, page: parts[0] } : none;
}

/** @param {string} slug @param {string} [tab] */
export function plan(slug, tab = "rail") {
  const end = TABS.find(([name]) => name === tab)?.[2] ?? "";
  return `/p/${encodeURIComponent(slug)}${end}`;
}

/** The address of a step: a panel beside the plan, on a narrow screen a page. @param {string} slug @param {string} anchor */
export function step(slug, anchor) {
  if (narrow()) return `/p/${encodeURIComponent(slug)}/s/${encodeURIComponent(anchor)}`;
  return `${plan(slug)}?s=${encodeURIComponent(anchor)}`;
}

export function narrow() {
  return matchMedia("(max-width: 900px)").matches;
}

/** @param {string} url @param {boolean} [replace] */
export function go(url, replace = false) {
  if (url === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  dispatchEvent(new PopStateEvent("popstate"));
}

/** The present address with other parameters; an empty one is left out. @param {Record<string, string>} values */
export function withQuery(values) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const said = query.toString();
  return location.pathname + (said ? `?${said}` : "");
}

/** Links of the page are followed without loading it again. @param {MouseEvent} event */
export function follow(event) {
  const link = /** @type {Element} */ (event.target).closest?.("a[href^='/']");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(/** @type {string} */ (link.getAttribute("href")));
  if (!link.closest("[data-stay]")) document.querySelector("main")?.scrollTo?.(0, 0);
}
