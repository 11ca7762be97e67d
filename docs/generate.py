"""Writes what the pages take from the code: the tables of the references, and what the commands print that a page shows.

    python docs/generate.py            write what has changed
    python docs/generate.py --check    write nothing; exit code 1 when a page is out of date

In: config/settings.py (units, bounds, defaults, meanings), views/metrics.py (a scrape of one cycle in which everything happens), the
description that the agent serves at /openapi.json, and the commands in the pages. Out: the text between `<!-- generated: NAME -->` and
`<!-- end -->`, and what stands below each line `$ qosmanager plan ...` and `$ qosmanager config ...`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from enum import Enum
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from qosmanager.config.presets import PRESETS
from qosmanager.config.settings import CpuSuppressSettings, Settings, Strategy
from qosmanager.documents.quantities import ANY, Rule
from qosmanager.documents.reader import allowed
from qosmanager.documents.snapshot import load_snapshot
from qosmanager.engine.shadow import Shadow
from qosmanager.engine.step import step
from qosmanager.http.openapi import description
from qosmanager.model.actions import Outcome, Receipt, Result, Verdict
from qosmanager.model.attribution import Attribution, Suspect
from qosmanager.model.fast_path import FastPathUse
from qosmanager.model.forecast import Forecast
from qosmanager.model.own_use import OwnUse
from qosmanager.model.qos import Plugin
from qosmanager.model.record import CycleRecord
from qosmanager.model.state import State
from qosmanager.views.beside import Beside
from qosmanager.views.cluster import ClusterView
from qosmanager.views.metrics import Metrics
from qosmanager.views.recording import RecordingView
from qosmanager.views.shadow import ShadowView
from qosmanager.views.status import About

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
TRANSCRIPT = re.compile(r"^(```console\n\$ )(qosmanager (?:plan|config) [^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REGION = re.compile(r"^(<!-- generated: ([a-z]+) -->\n).*?^(<!-- end -->)$", re.MULTILINE | re.DOTALL)


def pages() -> dict[Path, str]:
    """Return each page that depends on the code, as it has to be."""
    made = {}
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        wanted = TRANSCRIPT.sub(_with_output, REGION.sub(_with_region, text))
        if REGION.search(text) or TRANSCRIPT.search(text):
            made[path] = wanted
    return made


def out_of_date() -> list[Path]:
    """Return the pages that differ from what the code says."""
    return [path for path, text in pages().items() if path.read_text(encoding="utf-8") != text]


def _with_region(region: re.Match[str]) -> str:
    return f"{region[1]}\n{REGIONS[region[2]]()}\n{region[3]}"


# -- commands in the pages -------------------------------------------------------------------------------------------------------


def _with_output(transcript: re.Match[str]) -> str:
    opening, command = transcript[1], transcript[2]
    return f"{opening}{command}\n{output(command).rstrip()}\n```"


def output(command: str) -> str:
    """Run a command of a page as its reader would, from the top of the repository; what it prints, in the order of a terminal."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    ran = subprocess.run(
        ["/bin/sh", "-c", f"exec 2>&1; {command}"], cwd=ROOT, env={"PATH": path, "LANG": "C.UTF-8"}, capture_output=True, check=False
    )
    return ran.stdout.decode()


# -- configuration ---------------------------------------------------------------------------------------------------------------


PLUGIN_PAGES = {
    "CPUBurst": "cpu-burst",
    "CPUSuppress": "cpu-suppress",
    "CPUEvict": "cpu-evict",
    "MemoryEvict": "memory-evict",
    "NodeQOSResource": "node-qos-resource",
    "SystemQOSResource": "system-qos-resource",
}


class Key(Struct, frozen=True):
    """One setting: its path below `qosManager`, default, what is allowed, meaning; all as shown."""

    path: str
    default: str
    allowed: str
    meaning: str


def keys() -> str:
    """Return a table for the keys of the root, then one for each section."""
    fields = msgspec.structs.fields(Settings)
    plain = [field for field in fields if not isinstance(field.default, Struct)]
    preset = Key(
        "preset", "none", f"one of {', '.join(preset.value for preset in PRESETS)}", "values to lie under your own keys, see below"
    )
    tables = [_key_table("General", "", [preset, *(_key("", field, field.default) for field in plain)])]
    for field in fields:
        if isinstance(field.default, Struct):
            meaning = _about(field.default)
            tables.append(_key_table(field.encode_name, meaning, list(_keys(field.encode_name, field.default))))
    return "\n".join(tables)


def _about(section: Struct) -> str:
    """Return what a section is about: its own sentence, or its plugin's page."""
    sentence = " ".join((type(section).__doc__ or "").split())
    plugin = sentence.rstrip(".")
    return f"[{plugin}](plugins/{PLUGIN_PAGES[plugin]}.md)." if plugin in PLUGIN_PAGES else sentence


def _keys(path: str, section: Struct) -> Iterator[Key]:
    for field in msgspec.structs.fields(section):
        value, where = getattr(section, field.name), f"{path}.{field.encode_name}"
        if isinstance(value, Struct):
            yield from _keys(where, value)
        else:
            yield _key(path, field, value)


def _key(path: str, field: msgspec.structs.FieldInfo, value: Any) -> Key:
    kind, rule, meaning = _annotation(field.type)
    named = f"{path}.{field.encode_name}" if path else field.encode_name
    if typing.get_origin(kind) is tuple:
        return Key(named, "all six", f"a list of {', '.join(member.value for member in typing.get_args(kind)[0])}", meaning)
    unit = f" ({rule.unit})" if rule.unit in ("ratio", "percent", "MB/min") else ""
    return Key(named, shown(value, rule.unit), allowed(kind, rule) + unit, meaning)


def _annotation(annotation: Any) -> tuple[Any, Rule, str]:
    """Take a setting's annotation apart: its type, its rule, its meaning."""
    kind, *metas = typing.get_args(annotation) if typing.get_origin(annotation) is typing.Annotated else (annotation,)
    for meta in metas:
        return kind, Rule(**meta.extra), meta.description
    return kind, ANY, ""


def shown(value: Any, unit: str) -> str:
    """Return a setting's value as a person writes it in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    if unit == "duration":
        return (
            f"{value / 60:g}m"
            if value and value % 60 == 0 and value > 60
            else f"{value:g}s"
            if value >= 1 or not value
            else f"{value * 1000:g}ms"
        )
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _key_table(title: str, meaning: str, keys: list[Key]) -> str:
    rows = "".join(f"| `{key.path}` | `{key.default}` | {key.allowed} | {key.meaning} |\n" for key in keys)
    about = f"{meaning}\n\n" if meaning else ""
    return f"### {title}\n\n{about}| key | default | allowed | meaning |\n| --- | --- | --- | --- |\n{rows}"


def presets() -> str:
    """Return a table of what the presets change."""
    defaults = dict(_values("", Settings()))
    columns = {preset.value: dict(_values("", settings)) for preset, settings in PRESETS.items()}
    changed = [path for path, value in defaults.items() if any(values[path] != value for values in columns.values())]
    head = f"| key | {' | '.join(f'`{name}`' for name in columns)} |\n| --- |{' --- |' * len(columns)}\n"
    return head + "".join(
        f"| `{path}` | {' | '.join(_cell(values[path], defaults[path]) for values in columns.values())} |\n" for path in changed
    )


def _cell(value: str, default: str) -> str:
    return value if value == default else f"**{value}**"


def _values(path: str, section: Struct) -> Iterator[tuple[str, str]]:
    for field in msgspec.structs.fields(section):
        value, where = getattr(section, field.name), f"{path}.{field.encode_name}" if path else field.encode_name
        if isinstance(value, Struct):
            yield from _values(where, value)
        else:
            yield where, shown(value, _annotation(field.type)[1].unit)


# -- metrics ---------------------------------------------------------------------------------------------------------------------


def own_metrics() -> str:
    """Return a table of every family that one eventful cycle exports."""
    collector = Metrics(About(version="0", pid=1, started=0.0), Settings())
    collector.observe(eventful_cycle())
    recording = RecordingView(directory="", cycles=1, bytes=1, lost=0)
    cluster = ClusterView(node_name="", origin="api", age=0.0, pods=0)
    collector.beside = lambda: Beside(recording=recording, shadow=eventful_shadow(), cluster=cluster, fast_path=FastPathUse(on=True))
    return _metric_table(collector)


def eventful_shadow() -> ShadowView:
    """Return another configuration beside the agent, with a limit of its own."""
    return replace(Shadow("", Settings(), State()).view, level="HIGH", be_limit=1.0)


def process_metrics() -> str:
    """Return a table of the process' own families."""
    return _metric_table(ProcessCollector(registry=CollectorRegistry()))


def _metric_table(collector: Collector) -> str:
    rows = "".join(map(_family, sorted(collector.collect(), key=lambda family: family.name)))
    return f"| name | type | labels | meaning |\n| --- | --- | --- | --- |\n{rows}"


def eventful_cycle() -> CycleRecord:
    """Return a cycle in which every reading is taken and every kind of thing happens, so that no family is left out."""
    path = ROOT / "examples" / "snapshots" / "everything.yaml"
    snapshot, before = load_snapshot(path.read_text(encoding="utf-8"), path.name)
    foretold = (Forecast("shop/cart", ("shop/cart-0",), cores=1.0, error=0.1),)
    suspected = (Attribution("shop/cart-0", (Suspect("batch/rec-3", "cpu", 0.5),)),)
    snapshot = replace(snapshot, forecasts=foretold, attributions=suspected)
    after, assessment, plan = step(before, snapshot, Settings())
    # What the strategy slo tells beside that.
    _, fared, _ = step(before, snapshot, Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.SLO)))
    assessment = replace(assessment, guard=fared.guard, wellbeing=fared.wellbeing)
    stages = ("collect", "verify", "assess", "decide", "act", "total")
    return CycleRecord(
        number=1,
        wall=snapshot.time or 0.0,
        snapshot=snapshot,
        assessment=assessment,
        plan=replace(plan, degraded=("node_stale",)),
        state=after,
        receipts=tuple(Receipt(target="", result=Result.APPLIED, action=index) for index in range(len(plan.actions))),
        outcomes=tuple(
            Outcome(plugin=Plugin.CPU_SUPPRESS, kind="set_be_cpu_limit", target="BE", verdict=verdict, since=None, detail="")
            for verdict in Verdict
        ),
        durations=dict.fromkeys(stages, 1.0),
        own=OwnUse(cpu=0.01, rss=1 << 26, lag=0.0),
    )


def _family(family: Any) -> str:
    name = f"{family.name}_total" if family.type == "counter" else f"{family.name}_info" if family.type == "info" else family.name
    return f"| `{name}` | {family.type} | {', '.join(_labels(family))} | {family.documentation} |\n"


def _labels(family: Any) -> Iterator[str]:
    """Yield each label; with its values where they are few and always the same."""
    values: dict[str, list[str]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            if value not in values.setdefault(label, []):
                values[label].append(value)
    values.pop("le", None)
    for label, seen in values.items():
        closed = label in ("level", "mode", "state", "stage", "resource", "reason", "outcome") and family.name != "koordlet_qos_degraded"
        yield f"`{label}` ({', '.join(seen)})" if closed else f"`{label}`"


# -- HTTP ------------------------------------------------------------------------------------------------------------------------


HTTP = description("0")


def endpoints() -> str:
    """Return a table of every path's own answers."""
    rows = [
        f"| `{path}` | {code} | {_body(response)} | {response['description']} |\n"
        for path, item in HTTP["paths"].items()
        for code, response in item["get"]["responses"].items()
        if "$ref" not in response
    ]
    return f"| path | code | body | when, and what |\n| --- | --- | --- | --- |\n{''.join(rows)}"


def parameters() -> str:
    """Return a table of every path's parameters."""
    rows = [
        f"| `{path}` | `{each['name']}` | {_kind(each['schema'])} | {_code(each['schema'].get('default'))} | {each['description']} |\n"
        for path, item in HTTP["paths"].items()
        for each in item["get"].get("parameters", ())
    ]
    return f"| path | parameter | type | default | meaning |\n| --- | --- | --- | --- | --- |\n{''.join(rows)}"


def errors() -> str:
    """Return a table of the answers that belong to no path alone."""
    codes = {status.phrase.replace(" ", ""): status.value for status in HTTPStatus}
    rows = [f"| {codes[name]} | {_body(each)} | {each['description']} |\n" for name, each in HTTP["components"]["responses"].items()]
    return f"| code | body | when |\n| --- | --- | --- |\n{''.join(sorted(rows))}"


def _body(response: dict[str, Any]) -> str:
    first = next(iter(response["content"].values()))
    media = " or ".join(response["content"])
    return _kind(first["schema"]) if "$ref" in first["schema"] else media


def bodies() -> str:
    """Return a table of fields for each object that an answer holds; the configuration's own stand in its reference."""
    configuration = msgspec.json.schema_components([Settings])[1]
    schemas = HTTP["components"]["schemas"].items()
    return "\n".join(_object(name, schema) for name, schema in schemas if name not in configuration and "enum" not in schema)


def _object(name: str, schema: dict[str, Any]) -> str:
    rows = "".join(f"| `{field}` | {_kind(each)} |\n" for field, each in schema["properties"].items())
    return f"### {name}\n\n{' '.join(schema['description'].split())}\n\n| field | type |\n| --- | --- |\n{rows}"


def _kind(schema: dict[str, Any]) -> str:
    """Return a schema in words, with a link to each object."""
    if "$ref" in schema:
        return _named(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if schema["type"] == "array":
        return f"list of {_kind(schema['items'])}"
    if schema["type"] == "object":
        values = schema["additionalProperties"]
        return f"object of {_kind(values)} by name"
    bounds = f" from {schema['minimum']} to {schema['maximum']}" if "minimum" in schema and "maximum" in schema else ""
    return f"{schema['type']}{bounds}"


def _named(name: str) -> str:
    if name == "Settings":
        return "the [configuration](configuration.md) in force, durations in seconds"
    values = HTTP["components"]["schemas"][name].get("enum")
    return f"one of {', '.join(values)}" if values else f"[{name}](#{name.lower()})"


def _code(value: Any) -> str:
    return "" if value is None else f"`{msgspec.json.encode(value).decode()}`"


REGIONS = {
    "keys": keys,
    "presets": presets,
    "metrics": own_metrics,
    "process": process_metrics,
    "endpoints": endpoints,
    "parameters": parameters,
    "errors": errors,
    "bodies": bodies,
}


def main() -> None:
    if "--check" in sys.argv[1:]:
        stale = out_of_date()
        for path in stale:
            print(f"out of date: {path.relative_to(ROOT)}; python docs/generate.py writes it anew", file=sys.stderr)
        sys.exit(1 if stale else 0)
    for path, text in pages().items():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
