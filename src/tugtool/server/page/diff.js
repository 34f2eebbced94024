// Patches, evidence, notes and transcripts: loaded on demand.
import { get } from "./api.js";
import { duration, local, worker } from "./format.js";
import { Component, html, Pure } from "./html.js";
import { Fold } from "./parts.js";

/** The end of a transcript that is kept in the page. */
const MOST_TEXT = 200_000;

/** What the server answers, asked for once it is shown. */
export class Loaded extends Component {
  componentDidMount() {
    this.load();
  }
  componentDidUpdate(before) {
    if (before.again !== this.props.again || before.path !== this.props.path || JSON.stringify(before.values) !== JSON.stringify(this.props.values)) this.load();
  }
  componentWillUnmount() {
    this.gone = true;
  }
  async load() {
    const { path, values } = this.props;
    const mine = (this.asked = {});
    try {
      const data = await get(path, values);
      if (!this.gone && mine === this.asked) this.setState({ data, error: null });
    } catch (error) {
      if (!this.gone && mine === this.asked) this.setState({ error });
    }
  }
  render({ draw, waiting }, { data, error }) {
    if (error && !data) return html`<p class="refusal">${error.message}</p>`;
    return data ? draw(data) : html`<p class="empty" aria-busy="true">${waiting ?? "…"}</p>`;
  }
}

/** A patch, line by line, each file by itself. */
export class Patch extends Pure {
  render({ text, cut }) {
    const files = split(text);
    if (!files.length) return html`<p class="empty">It changes no file.</p>`;
    return html`<div class="patch">${files.map((file) => html`<figure key=${file.name}>
      <figcaption><code>${file.name}</code> <span class="num add">+${file.added}</span> <span class="num del">−${file.removed}</span></figcaption>
      <pre tabindex="0" aria-label=${`Change of ${file.name}`}>${file.lines.map((line) => html`<span class=${KINDS[line[0]] ?? ""}>${line || " "}${"\n"}</span>`)}</pre></figure>`)}
      ${cut && html`<p class="notice">The rest is not shown: the change is too long.</p>`}</div>`;
  }
}

const KINDS = { "+": "add", "-": "del", "@": "hunk" };

/** @param {string} text */
function split(text) {
  /** @type {{name: string, lines: string[], added: number, removed: number}[]} */
  const files = [];
  let inside = false;
  for (const line of text.split("\n")) {
    if (line.startsWith("diff --git ")) {
      files.push({ name: line.replace(/^diff --git a\/(.*) b\/\1$/, "$1").replace(/^diff --git /, ""), lines: [], added: 0, removed: 0 });
      inside = false;
    } else if (!files.length && line.startsWith("--- ")) {
      files.push({ name: line.slice(4), lines: [], added: 0, removed: 0 });
    } else if (files.length) {
      const file = files[files.length - 1];
      if (line.startsWith("@@")) inside = true;
      if (!inside) continue;
      file.lines.push(line);
      file.added += Number(line.startsWith("+"));
      file.removed += Number(line.startsWith("-"));
    }
  }
  for (const file of files) if (file.lines.at(-1) === "") file.lines.pop();
  return files;
}

/** The change of a commit that the record names. @param {{hash: string, open?: boolean, label?: any}} props */
export function CommitDiff({ hash, open, label }) {
  return html`<div data-diff=${hash}><${Fold} key=${hash} open=${open} label=${label ?? html`Diff of <code>${hash.slice(0, 10)}</code>`}>
    <${Loaded} path="git/commit" values=${{ hash }} draw=${(/** @type {any} */ data) => html`<p class="faint">${data.title}</p><${Patch} text=${data.diff} cut=${data.cut} />`} /><//></div>`;
}

/** The commands that ran for a checkpoint, and what they printed. @param {{evidence: any}} props */
export function Evidence({ evidence }) {
  const { commands, judged, note, stale, commit, dirty, at, attempt, passed } = evidence;
  const where = `${commit ? `at ${commit.slice(0, 10)}` : "before the first commit"}${dirty ? " with uncommitted changes" : ""}, ${local(at)}, ${worker(evidence.worktree)}, attempt ${attempt}`;
  return html`<div class="evidence" data-evidence=${passed ? "passed" : "failed"}>
    ${judged && html`<p>Judged by the ${judged.role}${judged.reason ? `: ${judged.reason}` : ""}</p>`}
    ${commands.map((/** @type {any} */ each) => html`<div class="ran"><p><code>${each.command}</code>
      <span class=${each.exit_status ? "bad" : "good"}>${each.timed_out ? "timed out" : `exit ${each.exit_status}`}</span> <span class="num faint">${seconds(each.duration_seconds)}</span></p>
      ${each.output_tail.trim() && html`<${Fold} label="Output" open=${each.exit_status !== 0}><pre tabindex="0">${each.output_tail}</pre><//>`}</div>`)}
    ${note && html`<p class="bad">${note}</p>`}
    <p class="faint">${where}${stale ? html` <b class="stale-mark">⚠ stale</b>` : ""}</p></div>`;
}

/** @param {number} value */
function seconds(value) {
  return value < 60 ? `${value.toFixed(1)} s` : duration(value);
}

/** Notes with their whole text on demand. @param {{plan: string, notes: any[]}} props */
export function Notes({ plan, notes }) {
  return html`<ul class="notes">${notes.map((note) => html`<li key=${note.artifact_id} data-note=${note.artifact_id}>
    <${Fold} label=${html`<span class="faint">${note.kind.replaceAll("_", " ")}, ${local(note.recorded_at)}</span> ${note.summary}`}>
      <${Loaded} path="artifact" values=${{ plan, id: note.artifact_id }} draw=${(/** @type {any} */ data) => html`<pre tabindex="0">${data.content ?? data.summary}</pre>`} /><//></li>`)}</ul>`;
}

/** The calls of agents for a step; each is read when it is opened, and followed while it runs. @param {{plan: string, step: string, again: unknown}} props */
export function Transcripts({ plan, step, again }) {
  return html`<${Loaded} path="transcript/calls" values=${{ plan, step }} again=${again} draw=${(/** @type {any} */ data) =>
    data.calls.length ? data.calls.map((/** @type {any} */ each) => html`<div data-transcript=${each.role}>
      <${Fold} key=${`${each.attempt}.${each.call}`} open=${!each.ended} label=${html`${each.role} <span class="faint">call ${each.call}${each.attempt ? `, attempt ${each.attempt}` : ""}${each.ended ? "" : ", running"}</span>`}>
        <${Call} plan=${plan} step=${step} attempt=${each.attempt} call=${each.call} /><//></div>`)
      : html`<p class="empty">No transcript was kept.</p>`} />`;
}

/** One call: read to its end, then part by part as it grows. */
class Call extends Component {
  componentDidMount() {
    this.follow();
  }
  componentWillUnmount() {
    this.gone = true;
  }
  async follow() {
    let [file, offset, text] = ["", 0, ""];
    while (!this.gone) {
      try {
        const { plan, step, attempt, call } = this.props;
        const part = await get("transcript/part", { plan, step, attempt, call, file, offset, wait: text ? 20 : 0 });
        text = (part.from ? text : "") + part.text;
        ({ file, offset } = part);
        if (!this.gone) this.setState({ text: text.slice(-MOST_TEXT), ended: part.ended, error: null });
        if (part.ended) return;
      } catch (error) {
        if (!this.gone) this.setState({ error });
        if (error.status) return;
        await new Promise((done) => setTimeout(done, 2000));
      }
    }
  }
  render(_, { text, ended, error }) {
    if (error && !text) return html`<p class="refusal">${error.message}</p>`;
    return text === undefined ? html`<p class="empty" aria-busy="true">…</p>` : html`<${Tail} text=${text} live=${!ended} />`;
  }
}

/** A text that grows at its end, and is followed while its end is in view. */
class Tail extends Pure {
  componentDidMount() {
    if (this.props.live) this.box.scrollTop = this.box.scrollHeight;
  }
  getSnapshotBeforeUpdate() {
    const { box } = this;
    return box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
  }
  componentDidUpdate(_, __, atEnd) {
    if (this.props.live && atEnd) this.box.scrollTop = this.box.scrollHeight;
  }
  render({ text }) {
    return html`<pre ref=${(/** @type {any} */ box) => (this.box = box)} class="transcript" tabindex="0">${text}</pre>`;
  }
}
