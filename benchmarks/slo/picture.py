"""A page with one panel for each situation: p99 of the service across, work of batch up, a dot for each run. The best place is top left."""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go
from judge import work_of
from plotly.subplots import make_subplots

COLOURS = {"slo": "#c2410c", "pressure": "#a16207", "usage": "#4d7c0f", "alone": "#737373", "unmanaged": "#000000"}
FIXED = ("#1d4ed8", "#0891b2", "#7c3aed", "#60a5fa", "#0f766e", "#be185d", "#52525b")
COLUMNS = 3


def draw(by_situation: dict[str, list[dict]], objectives: dict[str, float], page: Path) -> None:
    """`objectives` in milliseconds. Writes one HTML file that needs no network."""
    rows = -(-len(by_situation) // COLUMNS)
    figure = make_subplots(rows, COLUMNS, subplot_titles=tuple(by_situation), horizontal_spacing=0.06, vertical_spacing=0.14)
    fixed = sorted({row["treatment"] for runs in by_situation.values() for row in runs} - COLOURS.keys())
    colours = COLOURS | dict(zip(fixed, FIXED * 2, strict=False))
    shown: set[str] = set()
    for number, (name, runs) in enumerate(by_situation.items()):
        place = {"row": number // COLUMNS + 1, "col": number % COLUMNS + 1}
        for treatment in sorted({row["treatment"] for row in runs}, key=list(colours).index):
            dots = [row for row in runs if row["treatment"] == treatment and not row["disturbed"]]
            figure.add_trace(
                go.Scatter(
                    x=[row["p99"] for row in dots],
                    y=[work_of(row) for row in dots],
                    mode="markers",
                    name=treatment,
                    legendgroup=treatment,
                    showlegend=treatment not in shown,
                    marker={"color": colours[treatment], "size": 9, "opacity": 0.75, "symbol": "star" if treatment == "slo" else "circle"},
                ),
                **place,
            )
            shown.add(treatment)
        figure.add_vline(x=objectives[name], line_dash="dot", line_color="#737373", **place)
    figure.update_xaxes(type="log", title_text="p99 of the service, ms")
    figure.update_yaxes(title_text="CPU of batch, cores (disk: MB/s)", rangemode="tozero")
    figure.update_layout(
        template="plotly_white", width=1200, height=380 * rows, legend={"orientation": "h", "y": -0.12}, margin={"t": 40, "l": 60, "r": 20}
    )
    figure.write_html(page, include_plotlyjs=True, config={"displayModeBar": False})
