// The map: waves as columns, steps as boxes, needs as curves.
import { tally } from "./format.js";
import { html, Pure } from "./html.js";
import { layered } from "./layout.js";
import { related } from "./rail.js";
import { withQuery } from "./route.js";
import { store } from "./store.js";

const SIZE = { w: 200, h: 52, gapX: 56, gapY: 14 };
const TOP = 28;
const PAD = 8;
/** So many characters fit on one line of a box. */
const FITS = 27;

export class MapView extends Pure {
  /** The places change only if the plan does. @param {any[]} steps */
  laid(steps) {
    const shape = steps.map((step) => `${step.anchor}<${step.needs.join()}`).join(";");
    if (shape !== this.shape) [this.shape, this.place] = [shape, layered(steps, SIZE)];
    return this.place;
  }
  /** Begin where the work is, not at what was done first. */
  componentDidMount() {
    const { steps, selected } = this.props;
    const now = selected || steps.find((/** @type {any} */ step) => step.status !== "completed")?.anchor;
    const node = this.place?.nodes.find((each) => each.anchor === now);
    if (!node || !this.box) return;
    const { clientWidth: wide, clientHeight: tall } = this.box;
    this.box.scrollTo(node.x + (SIZE.w - wide) / 2, node.y + (TOP - tall) / 2);
  }
  render({ steps, selected }) {
    if (!steps.length) return html`<p class="empty">The plan has no steps.</p>`;
    const laid = this.laid(steps);
    const near = related(steps, selected);
    const [width, height] = [laid.width + 2 * PAD, laid.height + 2 * PAD];
    const known = new Map(steps.map((/** @type {any} */ step) => [step.anchor, step]));
    const far = (/** @type {string[]} */ ...anchors) => (near && !anchors.every((each) => near.has(each)) ? " far" : "");
    return html`<div ref=${(/** @type {any} */ box) => (this.box = box)} class="map scroll" role="region" aria-label="Map of the steps" tabindex="0"><svg class="waves" width=${width} height=${TOP} aria-hidden="true">${Array.from({ length: laid.waves }, (_, wave) => html`<text x=${PAD + wave * (SIZE.w + SIZE.gapX)} y="18">wave ${wave + 1}</text>`)}</svg><svg width=${width} height=${height}>
      <defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" class="arrow" /></marker></defs>
      <g transform=${`translate(${PAD} ${PAD})`}><g aria-hidden="true">${laid.paths.map((path) => html`<path class=${`need${far(path.from, path.to)}`} d=${path.d} marker-end="url(#arrow)" />`)}</g>
        <g role="list">${laid.nodes.map((node) => box(known.get(node.anchor), node, selected, far(node.anchor)))}</g></g></svg></div>`;
  }
}

/** @param {any} step @param {{x: number, y: number}} node @param {string} selected @param {string} far */
function box(step, node, selected, far) {
  const { sign, word } = store.words.standings[step.standing];
  const { completed, total } = tally(step.rolled_up);
  const [one, two] = wrapped(step.title);
  const current = step.anchor === selected;
  return html`<g key=${step.anchor} role="listitem" transform=${`translate(${node.x} ${node.y - SIZE.h / 2})`} class=${far.trim()}><a href=${withQuery({ s: current ? "" : step.anchor })} data-row data-stay data-step=${step.anchor} data-standing=${step.standing} data-status=${step.status} aria-current=${current ? "true" : undefined}
    aria-label=${`${step.anchor}, ${word}: ${step.title}, ${completed} of ${total} items${step.needs.length ? `, needs ${step.needs.join(", ")}` : ""}`}>
    <title>${step.title}</title><rect class="box" width=${SIZE.w} height=${SIZE.h} rx="4" /><rect class="stripe" width="4" height=${SIZE.h} rx="2" />
    <text class="mono" x="12" y="16">${step.anchor}</text><text class="signed" x=${SIZE.w - 8} y="16" text-anchor="end">${sign} ${completed}/${total}</text>
    <text x="12" y="32">${one}</text><text x="12" y="46">${two}</text></a></g>`;
}

/** Two lines, cut between words. @param {string} title */
function wrapped(title) {
  const lines = ["", ""];
  let at = 0;
  for (const word of title.split(" ")) {
    const longer = lines[at] ? `${lines[at]} ${word}` : word;
    if (longer.length <= FITS || !lines[at]) lines[at] = longer.slice(0, FITS);
    else if (at === 0) lines[(at = 1)] = word.slice(0, FITS);
    else return [lines[0], `${lines[1].slice(0, FITS - 1)}…`];
  }
  return lines;
}
