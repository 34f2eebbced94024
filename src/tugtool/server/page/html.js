// Elements as text: `html` makes what Preact draws. No HTML is ever parsed from data.
import htm from "./vendor/htm.mjs";
import { Component, h, render } from "./vendor/preact.mjs";

export { Component, render };
// 3: keep no pieces without data. Preact ties them to their first parent for ever.
export const html = htm.bind(function (...said) {
  this[0] = 3;
  return h(...said);
});

/** A component that is drawn again only if one of its properties is another one. */
export class Pure extends Component {
  /** @param {Record<string, unknown>} next @param {unknown} state */
  shouldComponentUpdate(next, state) {
    const now = this.props;
    for (const name in next) if (next[name] !== now[name]) return true;
    for (const name in now) if (!(name in next)) return true;
    return state !== this.state;
  }
}

/** Put the focus on an element once it is there. @param {HTMLElement | null} element */
export function focus(element) {
  if (element) element.focus({ preventScroll: false });
}
