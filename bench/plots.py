"""Draw the plots of docs/internals/performance.md from the results; needs matplotlib.

    python bench/plots.py

The same results give the same files, byte by byte. Letters and lines have a grey that can be
read on white and on black, and there is no background.
"""

from typing import Any

import matplotlib
import report

matplotlib.use("svg")
from matplotlib import pyplot

PLOTS = report.PAGE.parent / "plots"
GREY = "#7d8590"
#: Distinct on white and on black, and for colour-blind readers.
COLOURS = ("#2f81f7", "#e3742f", "#8a63d2", "#1a9e8f", "#c9549b", "#9a8a1d")
#: If the largest value is so many times the smallest, use a logarithmic scale.
WIDE = 20
STYLE = {
    "svg.hashsalt": "tugtool",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlecolor": GREY,
    "text.color": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "legend.frameon": False,
}


def draw(plot: dict[str, Any]) -> None:
    """Draw one picture."""
    bars = plot["kind"] == "bar"
    many = max(len(each["x"]) for each in plot["series"])
    figure, axes = pyplot.subplots(figsize=(7.2, 0.6 + 0.32 * many if bars else 3.4))
    (_bars if bars else _lines)(axes, plot)
    axes.set_title(plot["title"], loc="left")
    axes.grid(axis="x" if bars else "both")
    axes.set_axisbelow(True)
    if len(plot["series"]) > 1:
        axes.legend()
    path = PLOTS / f"{plot['id']}.svg"
    figure.savefig(path, bbox_inches="tight", transparent=True, metadata={"Date": None})
    pyplot.close(figure)
    # Remove trailing spaces.
    text = path.read_text()
    path.write_text("".join(f"{line.rstrip()}\n" for line in text.splitlines()))


def _lines(axes: Any, plot: dict[str, Any]) -> None:
    for each, colour in zip(plot["series"], _colours(plot), strict=True):
        axes.plot(each["x"], each["y"], label=each["name"], color=colour, marker=".")
    axes.set_xlabel(plot["x"])
    axes.set_ylabel(plot["y"])
    if plot["log"]:
        axes.set_xscale("log")
    heights = [y for each in plot["series"] for y in each["y"]]
    if plot["log"] and min(heights) > 0 and max(heights) / min(heights) > WIDE:
        axes.set_yscale("log")
    else:
        # Similar values should look similar.
        axes.set_ylim(bottom=0)


def _bars(axes: Any, plot: dict[str, Any]) -> None:
    height = 0.8 / len(plot["series"])
    for number, (each, colour) in enumerate(zip(plot["series"], _colours(plot), strict=True)):
        places = [at + number * height for at in range(len(each["x"]))]
        drawn = axes.barh(places, each["y"], height, label=each["name"], color=colour)
        axes.bar_label(drawn, fmt="%.3g", padding=3, color=GREY)
    middle = (len(plot["series"]) - 1) * height / 2
    names = [str(name) for name in plot["series"][0]["x"]]
    axes.set_yticks([at + middle for at in range(len(names))], names)
    axes.invert_yaxis()
    axes.set_xlabel(plot["y"])
    if plot["log"]:
        axes.set_xscale("log")


def _colours(plot: dict[str, Any]) -> list[str]:
    return [COLOURS[n % len(COLOURS)] for n in range(len(plot["series"]))]


def main() -> None:
    PLOTS.mkdir(exist_ok=True)
    wanted = [plot for name in report.RESULTS for plot in report.load(name).get("plots", [])]
    with matplotlib.rc_context(STYLE):
        for plot in wanted:
            draw(plot)
    for stale in set(PLOTS.glob("*.svg")) - {PLOTS / f"{plot['id']}.svg" for plot in wanted}:
        stale.unlink()


if __name__ == "__main__":
    main()
