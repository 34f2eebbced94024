// About: the server, the record, who you are, and how the page behaves.
import { get, keepToken } from "./api.js";
import { local } from "./format.js";
import { Component, html } from "./html.js";
import { BINDINGS, keys } from "./keys.js";
import { live } from "./live.js";
import { Section } from "./parts.js";
import { store } from "./store.js";
import { theme } from "./theme.js";

export class About extends Component {
  componentDidMount() {
    Promise.all([get("whoami"), get("version")]).then(([who, version]) => this.setState({ who, version, asked: true }), () => this.setState({ asked: true }));
  }
  render({ link }, { who, version, asked }) {
    const asks = "Notification" in window && Notification.permission;
    return html`<main id="main" class="page about" tabindex="-1" aria-busy=${asked ? undefined : "true"}><h1>About</h1>
      <${Section} title="You" id="you"><dl>
        ${pair("name", who?.name ?? link.name)}${pair("role", who?.role ?? link.role)}
        ${pair("plan", who?.plan ?? "all plans")}${pair("until", who?.expires_at ? local(who.expires_at, true) : "the server stops")}</dl>
        ${link.role && link.role !== "operator" && html`<p>Your role lets you look. An operator's token also reviews and steers.</p>`}<//>
      <${Section} title="Server" id="server"><dl>${pair("repository", store.words?.root)}${pair("tugtool", link.server)}
        ${pair("record", store.epoch)}${pair("event", store.seq)}
        ${version && Object.entries(version).filter(([name, value]) => typeof value === "string" && name !== "tugtool").map(([name, value]) => pair(name.replaceAll("_", " "), value))}</dl><//>
      <${Section} title="This browser" id="browser">
        <fieldset><legend>Theme</legend>${["system", "light", "dark"].map((name) => html`<label class="check"><input type="radio" name="theme" value=${name} checked=${theme.chosen() === name} onChange=${() => { theme.choose(name); this.setState({}); }} /> ${name}</label>`)}</fieldset>
        <p><label class="check"><input type="checkbox" data-setting="keys" checked=${keys.on} onChange=${(/** @type {any} */ event) => { keys.set(event.target.checked); this.setState({}); }} /> single-key shortcuts</label></p>
        ${asks && html`<p>${asks === "granted" ? "The browser tells you when something new needs you." : asks === "denied" ? "The browser does not allow notifications." : html`<button type="button" onClick=${() => Notification.requestPermission().then(() => this.setState({}))}>Tell me when something new needs me</button>`}</p>`}
      <//>
      <${Section} title="Keys" id="keys">${keyTable()}<//></main>`;
  }
}

/** @param {string} name @param {any} value */
function pair(name, value) {
  return value !== undefined && value !== null && value !== "" && html`<div><dt>${name}</dt><dd>${String(value)}</dd></div>`;
}

export function keyTable() {
  return html`<table class="keys"><caption class="hidden">Shortcuts</caption><tbody>${BINDINGS.map(([names, what]) => html`<tr><th scope="row">${names.split(" ").map((name) => (name === "…" ? "… " : html`<kbd>${name}</kbd> `))}</th><td>${what}</td></tr>`)}</tbody></table>`;
}

/** Asks for a token: the address had none, or it has ended. */
export class TokenForm extends Component {
  render({ why }) {
    const submit = (/** @type {any} */ event) => {
      event.preventDefault();
      keepToken(event.target.elements.token.value);
      live.restart();
    };
    return html`<main id="main" class="page token" tabindex="-1"><h1>A token, please</h1>
      <p>${why || "This page needs the token that the server printed."} Open the address that <code>tugcode open</code> prints, or paste its token:</p>
      <form onSubmit=${submit}><label>Token<input type="password" name="token" autocomplete="off" required /></label> <button class="primary">Go on</button></form></main>`;
  }
}
