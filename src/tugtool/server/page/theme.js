// Light or dark: as the system says, unless the person chose.
const KEY = "tug.theme";

export const theme = {
  chosen() {
    return localStorage.getItem(KEY) ?? "system";
  },
  /** @param {string} name */
  choose(name) {
    if (name === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, name);
    this.apply();
  },
  apply() {
    const name = this.chosen();
    if (name === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
  },
  next() {
    const names = ["system", "light", "dark"];
    this.choose(names[(names.indexOf(this.chosen()) + 1) % names.length]);
  },
};
