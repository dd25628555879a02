"""The run as a picture: enqueue and drain on a logarithmic scale, one panel per store."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bench.contestants import CONTESTANTS, Contestant
from bench.places import POSTGRES, SQLITE
from bench.samples import Samples

PICTURE = Path(__file__).parent / "result.png"
COLOURS = {"enqueue": "#9db8d9", "drain": "#1f5a99"}
OURS = {"enqueue": "#f3bd8b", "drain": "#d95f02"}
FLOOR = {"enqueue": "#d0d0d0", "drain": "#8c8c8c"}
INK = "#333333"


def plot(samples: Samples, facts: dict[str, str], path: Path = PICTURE) -> None:
    stores = [store for store in (POSTGRES, SQLITE) if _bars(samples, store)]
    heights = [len(_bars(samples, store)) for store in stores]
    if not stores:
        return
    figure, panels = plt.subplots(
        len(stores),
        1,
        figsize=(10, 1.9 + 0.55 * sum(heights)),
        height_ratios=heights,
        squeeze=False,
        sharex=True,
    )
    for panel, store in zip(panels[:, 0], stores, strict=True):
        _panel(panel, samples, store)
    panels[-1, 0].set_xlabel("items per second, logarithmic: longer is better", color=INK)
    figure.suptitle(
        "No-op items through one worker process, every commit on the disk",
        x=0.02,
        ha="left",
        fontsize=13,
        color=INK,
    )
    figure.text(0.02, 0.005, f"{facts['date']} · {facts['machine']}", fontsize=7, color="#777777")
    figure.tight_layout(rect=(0, 0.02, 1, 0.99), h_pad=1.5)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _bars(samples: Samples, store: str) -> list[tuple[Contestant, int]]:
    return [
        (contestant, batch)
        for contestant in CONTESTANTS
        for batch in contestant.batches
        if contestant.store == store and samples.of(contestant.name, f"drain {batch}")
    ]


def _panel(panel: Axes, samples: Samples, store: str) -> None:
    bars = _bars(samples, store)
    for place, (contestant, batch) in enumerate(bars):
        for offset, what in ((-0.2, "enqueue"), (0.2, "drain")):
            value = samples.median(contestant.name, f"{what} {batch}")
            if value is None:
                continue
            panel.barh(place + offset, value, height=0.38, color=_colours(contestant)[what])
            panel.text(
                value * 1.04,
                place + offset,
                f"{what} {value:,.0f}",
                va="center",
                fontsize=8,
                color=INK,
            )
    panel.set_xscale("log")
    panel.set_xlim(100, 3_000_000)
    panel.minorticks_off()
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.set_yticks(range(len(bars)), [_label(*bar) for bar in bars], color=INK, fontsize=9)
    panel.invert_yaxis()
    panel.set_title(store, loc="left", fontsize=11, fontweight="bold", color=INK)
    panel.grid(axis="x", color="#e6e6e6")
    panel.set_axisbelow(True)
    panel.tick_params(axis="both", length=0, labelcolor=INK)
    for side in ("top", "right", "left", "bottom"):
        panel.spines[side].set_visible(False)


def _colours(contestant: Contestant) -> dict[str, str]:
    if "Podium" in contestant.label:
        return OURS
    return FLOOR if "floor" in contestant.label else COLOURS


def _label(contestant: Contestant, batch: int) -> str:
    plain = contestant.label.replace("*", "").replace("`", "")
    return f"{plain}\n{batch:,} at once" if batch > 1 else f"{plain}\none by one"
