"""The page itself. In: tracks, a table of totals, verdicts. Out: one HTML text that needs nothing else, also offline."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import plotly.graph_objects as go
import plotly.io
from msgspec import Struct
from plotly.subplots import make_subplots

from qosmanager.model.qos import LEVELS
from qosmanager.report.track import Track

_SERVICES = 6  # latency lines of one run: those with the highest p99
_LS, _BE, _LIMIT, _NODE = "#1f6feb", "#e8710a", "#b3261e", "#8a8f98"
_LEVEL_COLORS = ("#2e9e5b", "#a6c34b", "#f0b429", "#e8710a", "#b3261e")
_SERVICE_COLORS = ("#1f6feb", "#8250df", "#0a7f7f", "#bf3989", "#57606a", "#9a6700")
_ROWS = ("CPU, cores", "p99, ms", "pressure score", "level", "memory, GiB", "done and happened")
_HEIGHTS = (0.28, 0.2, 0.16, 0.03, 0.14, 0.19)
_KINDS = {  # of an action or event: what it is called, its colour and its mark; the most serious one is on top
    "restore_cpu_limit": ("burst over", _LS, "triangle-down-open"),
    "set_cpu_limit": ("burst", _LS, "triangle-up"),
    "restore_be_cpuset": ("BE CPUs back", _LIMIT, "square-open"),
    "set_be_cpuset": ("BE CPUs", _LIMIT, "square"),
    "restore_be_cpu_limit": ("BE limit off", _LIMIT, "line-ew-open"),
    "set_be_cpu_limit": ("BE limit", _LIMIT, "line-ns-open"),
    "evict": ("evict", "#1c2024", "x"),
    "oom-killed": ("kernel kill", "#b3261e", "star"),
}
_OTHER = ("#57606a", "circle-open")
_DAY = 86400.0
_REASON = 110  # characters of a line of a hover text


class Verdict(Struct, frozen=True):
    """One expectation: `met` None: only measured."""

    met: bool | None
    text: str


class Page(Struct, frozen=True, kw_only=True):
    """What is shown. `cpus` and `memory` (bytes) of the node; `slos` in seconds by service. `rows`: name, then one cell for each track."""

    title: str
    about: str
    facts: str
    cpus: float
    memory: float | None
    tracks: tuple[Track, ...]
    rows: tuple[tuple[str, ...], ...]
    slos: dict[str, float] = {}
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()


def render(page: Page) -> str:
    """Return the page."""
    figure = _figure(page)
    # Everything is in the file itself: it is opened where there is no network.
    plot = plotly.io.to_html(
        figure, full_html=False, include_plotlyjs=True, config={"displaylogo": False, "responsive": True, "scrollZoom": False}
    )
    texts = {name: html.escape(text) for name, text in (("title", page.title), ("about", page.about), ("facts", page.facts))}
    notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in (*page.notes, *_condensing(page)))
    head = _FRAME.format(**texts, key=_key(), table=_table(page), notes=notes)
    return f"{head}{_verdicts(page)}<div class=plot>{plot}</div></main></body></html>\n"


def _key() -> str:
    """Say which colour is which level."""
    return " ".join(
        f'<span class=level style="background:{color}"></span>{level.value}' for level, color in zip(LEVELS, _LEVEL_COLORS, strict=True)
    )


def _condensing(page: Page) -> list[str]:
    step = max((track.step for track in page.tracks), default=1)
    if step == 1:
        return []
    return [f"A point stands for {step} cycles: the mean of CPU and limit; the largest of latency, score, level and memory."]


def _table(page: Page) -> str:
    head = "".join(f"<th>{html.escape(track.name)}</th>" for track in page.tracks)
    body = "".join(
        f"<tr><th>{html.escape(row[0])}</th>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row[1:])}</tr>" for row in page.rows
    )
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"


def _verdicts(page: Page) -> str:
    if not page.verdicts:
        return ""
    words = {True: ("met", "ok"), False: ("NOT MET", "bad"), None: ("measured", "so")}
    lines = "".join(
        f"<li class={words[verdict.met][1]}><b>{words[verdict.met][0]}</b> {html.escape(verdict.text)}</li>" for verdict in page.verdicts
    )
    return f"<h2>Expected</h2><ul class=verdicts>{lines}</ul>"


def _figure(page: Page) -> go.Figure:
    columns = max(1, len(page.tracks))
    figure = make_subplots(
        rows=len(_ROWS),
        cols=columns,
        shared_xaxes=True,
        shared_yaxes="rows",
        row_heights=list(_HEIGHTS),
        vertical_spacing=0.025,
        horizontal_spacing=0.03,
        column_titles=[f"<b>{html.escape(track.name)}</b>" for track in page.tracks],
    )
    for column, track in enumerate(page.tracks, 1):
        _Column(figure, page, track, column).draw()
    for row, name in enumerate(_ROWS, 1):
        figure.update_yaxes(title_text=name, title_standoff=8, row=row, col=1)
    # Every range is given: axes that match each other are not always fitted to their data.
    figure.update_yaxes(range=[0, page.cpus * 1.05], row=1)
    figure.update_yaxes(type="log", range=_latency_range(page), row=2)
    figure.update_yaxes(range=[0, 100], dtick=25, row=3)
    figure.update_yaxes(showticklabels=False, range=[-0.5, 0.5], row=4)
    figure.update_yaxes(range=[0, _memory_top(page)], row=5)
    order = _order(page)
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=order, range=[-0.5, len(order) - 0.5], row=6)
    figure.update_layout(
        template="plotly_white",
        height=1180,
        margin={"l": 70, "r": 20, "t": 60, "b": 30},
        hovermode="x unified" if columns == 1 else "closest",
        legend={"orientation": "h", "y": 1.045, "yanchor": "bottom", "x": 0},
        font={"family": "system-ui, sans-serif", "size": 12},
        hoverlabel={"align": "left", "font": {"size": 12}},
    )
    return figure


def _latency_range(page: Page) -> list[float]:
    """Return the exponents of ten between which all latencies and objectives lie, in milliseconds."""
    values = [value * 1000 for track in page.tracks for service in track.services()[:_SERVICES] for value in track.p99(service)]
    values += [slo * 1000 for slo in page.slos.values()]
    known = [value for value in values if value > 0]
    return [math.log10(min(known)) - 0.08, math.log10(max(known)) + 0.08] if known else [0, 3]


def _memory_top(page: Page) -> float:
    used = max((value for track in page.tracks for value in track.column("memory") if not math.isnan(value)), default=0.0)
    return max(page.memory or 0.0, used, 2**20) / 2**30 * 1.05


def _order(page: Page) -> list[str]:
    """Return what was done and happened, by its name on the page, the most serious last: on top."""
    kinds = {mark.kind for track in page.tracks for mark, _ in track.marks()}
    known = [name for kind, (name, _, _) in _KINDS.items() if kind in kinds]
    return sorted(kinds - _KINDS.keys()) + known or [_KINDS["set_be_cpu_limit"][0]]


class _Column:
    """Draws one run into one column."""

    def __init__(self, figure: go.Figure, page: Page, track: Track, column: int) -> None:
        self._figure = figure
        self._page = page
        self._track = track
        self._column = column
        self._times = [self._moment(time) for time in track.times()]

    def draw(self) -> None:
        self._cpu()
        self._latency()
        self._scores()
        self._level()
        self._memory()
        self._marks()
        if self._times:
            shown = "day %-j, %H:%M" if self._track.length > _DAY else "%H:%M:%S"
            self._figure.update_xaxes(range=[self._times[0], self._times[-1]], tickformat=shown, col=self._column)

    def _cpu(self) -> None:
        self._line(1, "node", "whole node", _NODE, dash="dot", width=1)
        self._line(1, "ls", "LS", _LS, fill="rgba(31,111,235,0.18)")
        self._line(1, "be", "BE", _BE, fill="rgba(232,113,10,0.18)")
        self._line(1, "limit", "BE limit", _LIMIT, dash="dash", shape="hv")
        self._figure.add_hline(y=self._page.cpus, line={"color": "#c4c7cc", "width": 1}, row=1, col=self._column)

    def _latency(self) -> None:
        for place, service in enumerate(self._track.services()[:_SERVICES]):
            values = [value * 1000 for value in self._track.p99(service)]
            color = _SERVICE_COLORS[place]
            self._trace(2, f"p99 {service}", values, {"color": color, "width": 1.5}, hover="%{y:.3g} ms")
        for slo in sorted(set(self._page.slos.values())):
            line = {"color": _LIMIT, "width": 1, "dash": "dash"}
            self._trace(2, f"SLO {slo * 1000:g} ms", [slo * 1000] * len(self._times), line, hover="%{y:g} ms")

    def _scores(self) -> None:
        for field, name, color in (
            ("cpu_score", "CPU score", _LS),
            ("memory_score", "memory score", "#8250df"),
            ("io_score", "I/O score", "#0a7f7f"),
        ):
            self._line(3, field, name, color)

    def _level(self) -> None:
        ranks = self._track.column("level")
        names = ["" if math.isnan(rank) else LEVELS[int(rank)].value for rank in ranks]
        if not any(names):
            # As a trace: an axis without one is not there, and text that refers to it ends up elsewhere.
            self._figure.add_trace(
                go.Scatter(
                    x=self._times[len(self._times) // 2 :][:1],
                    y=[50],
                    mode="text",
                    text=["no agent, so no scores"],
                    textfont={"color": _NODE},
                    hoverinfo="skip",
                    showlegend=False,
                ),
                row=3,
                col=self._column,
            )
            return
        top = len(_LEVEL_COLORS) - 1
        scale = [[bound / (top + 1), color] for place, color in enumerate(_LEVEL_COLORS) for bound in (place, place + 1)]
        self._figure.add_trace(
            go.Heatmap(
                x=self._times,
                y=["level"],
                z=[[None if math.isnan(rank) else rank for rank in ranks]],
                zmin=-0.5,
                zmax=top + 0.5,
                colorscale=scale,
                showscale=False,
                customdata=[names],
                hovertemplate="%{customdata}<extra>level</extra>",
            ),
            row=4,
            col=self._column,
        )

    def _memory(self) -> None:
        values = [value / 2**30 for value in self._track.column("memory")]
        self._trace(5, "memory in use", values, {"color": "#8250df", "width": 1.5}, fill="rgba(130,80,223,0.12)", hover="%{y:.3g} GiB")
        if self._page.memory:
            self._figure.add_hline(y=self._page.memory / 2**30, line={"color": "#c4c7cc", "width": 1}, row=5, col=self._column)

    def _marks(self) -> None:
        kinds: dict[str, list[tuple[float, str]]] = {}
        for mark, count in self._track.marks():
            more = f"<br><i>and {count - 1} more like it just before</i>" if count > 1 else ""
            kinds.setdefault(mark.kind, []).append((mark.time, f"{_folded(mark.text)}{more}"))
        for kind in sorted(kinds, key=lambda kind: (list(_KINDS).index(kind) if kind in _KINDS else -1, kind)):
            name, color, symbol = _KINDS.get(kind, (kind, *_OTHER))
            self._figure.add_trace(
                go.Scatter(
                    x=[self._moment(time) for time, _ in kinds[kind]],
                    y=[name] * len(kinds[kind]),
                    mode="markers",
                    marker={"color": color, "symbol": symbol, "size": 10, "line": {"width": 2, "color": color}},
                    text=[text for _, text in kinds[kind]],
                    hovertemplate="%{text}<extra></extra>",
                    showlegend=False,
                ),
                row=6,
                col=self._column,
            )
        if not kinds:
            # An axis without a trace shows no time at all.
            ends = self._times[:: max(1, len(self._times) - 1)]
            nothing = go.Scatter(x=ends, y=[_order(self._page)[0]] * len(ends), mode="none", showlegend=False)
            self._figure.add_trace(nothing, row=6, col=self._column)

    def _line(self, row: int, field: str, name: str, color: str, **shape: Any) -> None:
        line = {"color": color, "width": shape.get("width", 1.5), "dash": shape.get("dash", "solid"), "shape": shape.get("shape", "linear")}
        self._trace(row, name, self._track.column(field), line, fill=shape.get("fill"), hover="%{y:.3g}")

    def _trace(self, row: int, name: str, values: Sequence[float], line: dict[str, Any], *, hover: str, fill: str | None = None) -> None:
        if all(math.isnan(value) for value in values):
            return
        self._figure.add_trace(
            go.Scatter(
                x=self._times,
                y=[None if math.isnan(value) else round(value, 5) for value in values],
                name=name,
                legendgroup=name,
                showlegend=not any(trace.name == name for trace in self._figure.data),
                mode="lines",
                line=line,
                fill="tozeroy" if fill else None,
                fillcolor=fill,
                hovertemplate=f"{hover}<extra>{html.escape(name)}</extra>",
            ),
            row=row,
            col=self._column,
        )

    def _moment(self, time: float) -> datetime:
        """Return a time as the axis wants it: a run's seconds count from midnight of no particular day."""
        return datetime.fromtimestamp(time, UTC).replace(tzinfo=None)


def _folded(text: str) -> str:
    """Break a reason into lines that a hover box holds."""
    lines, line = [], ""
    for word in html.escape(text, quote=False).split(" "):
        if line and len(line) + len(word) >= _REASON:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return "<br>".join([*lines, line])


_FRAME = """<!doctype html>
<html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width"><title>{title}</title>
<style>
:root {{ color-scheme: light; }}
body {{ margin: 0; background: #f6f7f9; color: #1c2024; font: 14px/1.45 system-ui, sans-serif; }}
main {{ max-width: 1500px; margin: 0 auto; padding: 20px 24px 40px; }}
h1 {{ font-size: 22px; margin: 0; }} h2 {{ font-size: 15px; margin: 20px 0 6px; }}
.about {{ margin: 4px 0 2px; }} .facts, .note {{ color: #57606a; margin: 2px 0; }}
table {{ border-collapse: collapse; margin: 16px 0 4px; background: #fff; border: 1px solid #e1e4e8; }}
th, td {{ padding: 4px 14px; border-bottom: 1px solid #eceef1; text-align: right; font-variant-numeric: tabular-nums; }}
tbody th {{ text-align: left; font-weight: 500; }}
.verdicts {{ list-style: none; margin: 0; padding: 0; }} .verdicts b {{ display: inline-block; min-width: 78px; }}
.ok b {{ color: #1a7f45; }} .bad b {{ color: #b3261e; }} .so b {{ color: #9a6700; }}
.level {{ display: inline-block; width: 12px; height: 12px; margin: 0 4px 0 10px; vertical-align: -1px; }}
.plot {{ background: #fff; border: 1px solid #e1e4e8; margin-top: 16px; }}
</style></head><body><main>
<h1>{title}</h1><p class=about>{about}</p><p class=facts>{facts}</p>{table}{notes}<p class=note>level: {key}</p>"""
