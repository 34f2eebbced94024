// Workers: every worktree with what it holds, stale ones first, and what it did before.
import { get } from "./api.js";
import { many, number, sentence, Since, worker } from "./format.js";
import { html, Pure } from "./html.js";
import { claims, claimStanding } from "./now.js";
import { Command, Empty, Lease, Sign } from "./parts.js";
import { plan as planAt, step as stepAt } from "./route.js";

const MOST_SHOWN = 24;

export class Workers extends Pure {
  constructor() {
    super();
    this.state = { trees: null, plans: [] };
  }
  componentDidMount() {
    this.load();
  }
  componentDidUpdate(before) {
    if (before.overview.worktrees !== this.props.overview.worktrees) this.load();
  }
  componentWillUnmount() {
    this.gone = true;
  }
  async load() {
    const [trees, shown] = await Promise.all([get("worktree/list").catch((error) => ({ error, worktrees: [] })), get("state/show").catch(() => ({ plans: [] }))]);
    if (!this.gone) this.setState({ trees: trees.worktrees, error: trees.error, plans: shown.plans });
  }

  /** Every worktree that is known: those that hold something first, stale ones before all. */
  rows() {
    const { overview } = this.props;
    const held = claims(overview);
    const trees = new Map((this.state.trees ?? []).map((/** @type {any} */ tree) => [tree.worktree_path, tree]));
    const paths = new Set([...held.map((claim) => claim.claimed_by), ...trees.keys()]);
    const gone = new Set(overview.worktrees.filter((/** @type {any} */ tree) => tree.registered && !tree.exists).map((/** @type {any} */ tree) => tree.path));
    const rows = [...paths].map((path) => ({ path, tree: trees.get(path), claims: held.filter((claim) => claim.claimed_by === path), gone: gone.has(path) }));
    const rank = (/** @type {any} */ row) => (row.gone || row.claims.some((/** @type {any} */ claim) => claim.stale) ? 0 : row.claims.length ? 1 : 2);
    return rows.sort((a, b) => rank(a) - rank(b) || worker(a.path).localeCompare(worker(b.path), "en", { numeric: true }));
  }

  render({ overview }, { error, trees }) {
    const rows = this.rows();
    const slugs = new Map(overview.plans.map((/** @type {any} */ plan) => [plan.plan_path, plan.slug]));
    return html`<main id="main" class="page workers" tabindex="-1" aria-busy=${trees ? undefined : "true"}><h1>Workers <span class="count">${rows.length}</span></h1>
      ${error && html`<p class="refusal">${error.message}</p>`}
      ${!rows.length ? html`<${Empty}>There is no worktree. A run makes them: <${Command} text="tugcode implement PLAN" /><//>`
        : html`<ul class="trees">${rows.map((row) => this.row(row, slugs))}</ul>`}</main>`;
  }

  /** @param {any} row @param {Map<string, string>} slugs */
  row({ path, tree, claims: held, gone }, slugs) {
    const standing = gone ? "stale" : held.length ? claimStanding(held[0]) : "blocked";
    const plan = tree?.plan_path && slugs.get(tree.plan_path);
    return html`<li key=${path} data-worker=${worker(path)} data-standing=${standing}>
      <h2><b>${worker(path)}</b> <${Sign} standing=${standing} status=${held[0]?.status} word=${held.length ? undefined : gone ? "gone" : "free"} /></h2>
      <div class="tree"><p class="facts">${plan && html`<span>plan <a href=${planAt(plan)}>${plan}</a></span>`}
        ${tree?.branch_name && html`<span class="faint">${tree.branch_name}${tree.base_branch ? ` from ${tree.base_branch}` : ""}</span>`}
        ${tree?.ahead !== null && tree?.ahead !== undefined && html`<span class="num">${tree.ahead} ahead, ${tree.behind} behind</span>`}
        ${tree && (tree.machine ? html`<span class="faint">on ${tree.machine}</span>` : !tree.exists ? html`<span class="late">its directory is gone</span>` : tree.clean ? html`<span class="good">clean</span>` : html`<span>${many(tree.changed_files ?? 0, "file")} not committed</span>`)}</p>
      ${held.map((/** @type {any} */ claim) => this.claim(claim))}
      ${this.past(path, slugs)}</div></li>`;
  }

  /** @param {any} claim */
  claim(claim) {
    const standing = claimStanding(claim);
    const seconds = (Date.parse(claim.lease_expires_at) - Date.parse(claim.heartbeat_at)) / 1000;
    return html`<p class="held" data-standing=${standing}><a href=${stepAt(claim.plan.slug, claim.anchor)} data-row>${claim.plan.slug}/${number(claim.anchor)}</a> <span>${claim.title}</span>
      ${(claim.role || !claim.stale) && html`<${Sign} standing=${standing} status=${claim.status} word=${claim.role ?? undefined} />`} <${Since} at=${claim.role_since ?? claim.claimed_at} />
      <span class="faint">attempt ${claim.attempt}, last sign <${Since} at=${claim.heartbeat_at} after=" ago" /></span>
      ${claim.stale ? html`<span class="late">${claim.stale === "gone" ? "its process is gone" : html`<${Since} at=${claim.lease_expires_at} before="its lease ended " after=" ago" />`}</span>` : html`<${Lease} until=${claim.lease_expires_at} seconds=${seconds} />`}
      ${claim.question && html`<span class="you">${sentence(claim.question)}</span>`}</p>`;
  }

  /** Its attempts, oldest first, one mark each. @param {string} path @param {Map<string, string>} slugs */
  past(path, slugs) {
    const found = this.state.plans.flatMap((/** @type {any} */ plan) => plan.steps.flatMap((/** @type {any} */ step) =>
      step.attempts.filter((/** @type {any} */ each) => each.worktree === path && each.ended_at).map((/** @type {any} */ each) => ({ ...each, anchor: step.anchor, slug: slugs.get(plan.plan_path) }))));
    if (!found.length) return null;
    const saved = found.filter((/** @type {any} */ each) => each.salvage_ref).slice(-3);
    const shown = found.sort((/** @type {any} */ a, /** @type {any} */ b) => a.claimed_at.localeCompare(b.claimed_at)).slice(-MOST_SHOWN);
    return html`<ol class="past" aria-label="Earlier attempts">${shown.map((/** @type {any} */ each) => html`<li data-outcome=${each.outcome}>
      <a href=${stepAt(each.slug ?? "", each.anchor)} title=${`${each.anchor}: ${each.outcome}`}><span aria-hidden="true">${OUTCOMES[each.outcome] ?? "×"}</span> ${number(each.anchor)}<span class="hidden"> ${each.outcome}</span></a></li>`)}</ol>
      ${saved.map((/** @type {any} */ each) => html`<p class="facts">saved: <code>${each.salvage_ref}</code> <a href=${stepAt(each.slug ?? "", each.anchor)}>how to apply</a></p>`)}`;
  }
}

/** Signs of outcomes: done, given back, lost. */
export const OUTCOMES = { completed: "✓", released: "↩", reset: "↺", expired: "!", superseded: "✂", dead: "!", failed: "✗" };
