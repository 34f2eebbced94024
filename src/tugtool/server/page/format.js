// Times, names and numbers as the terminal writes them.
import { store } from "./store.js";
import { Component, html } from "./html.js";

/** `45s`, `12m`, `1h 05m`, `3d 4h`: never rounded up. @param {number} seconds */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(whole / unit));
  if (days) return hours % 24 ? `${days}d ${hours % 24}h` : `${days}d`;
  if (hours) return minutes % 60 ? `${hours}h ${String(minutes % 60).padStart(2, "0")}m` : `${hours}h`;
  return minutes ? `${minutes}m` : `${whole}s`;
}

/** @param {string} from @param {string} to */
export function between(from, to) {
  return (Date.parse(to) - Date.parse(from)) / 1000;
}

/** Local time of day, with the day if that is another one. @param {string} at @param {boolean} [day] */
export function local(at, day) {
  const when = new Date(at);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const time = [when.getHours(), when.getMinutes(), when.getSeconds()].map(two).join(":");
  const same = when.toDateString() === new Date(store.now()).toDateString();
  if (same && !day) return time;
  return `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())} ${time}`;
}

/** The same for a narrow column: without the year, and seconds only of today. @param {string} at */
export function brief(at) {
  const said = local(at);
  return said.length > 8 ? said.slice(5, -3) : said;
}

/** The short name of a worktree, as the terminal has it. @param {string | null} path */
export function worker(path) {
  const root = store.words?.root ?? "";
  if (!path || !path.startsWith("/")) return path ?? "";
  if (path === root) return "the main worktree";
  const trees = `${root}/.tugtree/`;
  if (path.startsWith(trees) && !path.slice(trees.length).includes("/")) return path.slice(trees.length);
  return root && path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path;
}

/** `3` for `step-3`, `3.1` for `step-3-1`. @param {string} anchor */
export function number(anchor) {
  const rest = anchor.replace(/^step-/, "");
  return /^[0-9]+(-[0-9]+)*$/.test(rest) ? rest.replaceAll("-", ".") : anchor;
}

/** Worktrees without the repository, times in local time: a sentence for people. @param {string} text */
export function sentence(text) {
  const root = store.words?.root ?? "";
  const near = root ? text.replaceAll(`${root}/.tugtree/`, "").replaceAll(`${root}/`, "") : text;
  const slugs = near.replace(/\b(of |tugcode [a-z -]*)\.tugtool\/tugplan-([a-z0-9-]+)\.md/g, "$1$2");
  return slugs.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, (at) => local(at));
}

/** @param {number} count @param {string} word @param {string} [plural] */
export function many(count, word, plural) {
  return `${count} ${count === 1 ? word : plural ?? `${word}s`}`;
}

/** @param {number} value */
export function grouped(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** @param {number | null} microdollars */
export function dollars(microdollars) {
  return microdollars === null ? "" : `$${(microdollars / 1e6).toFixed(2)}`;
}

/** The percentage, rounded down: 100 means all. @param {number} done @param {number} total */
export function percent(done, total) {
  return total ? Math.floor((done * 100) / total) : 100;
}

/** The number of items of a step by status. @param {any} counts */
export function tally(counts) {
  const sum = { open: 0, in_progress: 0, completed: 0, deferred: 0, total: 0 };
  for (const kind of Object.values(counts)) {
    for (const [status, n] of Object.entries(kind)) {
      sum[status] += n;
      sum.total += n;
    }
  }
  return sum;
}

/** A text that changes with time alone: it draws itself again, and nothing else. */
export class Since extends Component {
  componentDidMount() {
    this.stop = store.onTick(() => {
      if (this.text() !== this.shown) this.setState({});
    });
  }
  componentWillUnmount() {
    this.stop();
  }
  text() {
    const { at, until, before = "", after = "" } = this.props;
    const now = store.now();
    const seconds = at ? (now - Date.parse(at)) / 1000 : (Date.parse(until) - now) / 1000;
    return before + duration(seconds) + after;
  }
  render() {
    this.shown = this.text();
    const when = this.props.at ?? this.props.until;
    return html`<time datetime=${when} title=${local(when, true)}>${this.shown}</time>`;
  }
}
