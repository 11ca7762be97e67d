"""The documentation tells the truth: examples are readable, shown commands give what is shown, references match the code, links lead on."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from qosmanager.cli.main import main
from qosmanager.config.parse import load_settings, read_settings
from qosmanager.config.settings import Settings
from qosmanager.documents.snapshot import load_snapshot
from qosmanager.documents.workloads import load_workloads
from qosmanager.engine.step import step
from qosmanager.model.qos import Mode, Plugin
from qosmanager.simulate.load import load_scenario

ROOT = Path(__file__).parents[2]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')


def generator():
    specification = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


GENERATE = generator()


def named(paths):
    return pytest.mark.parametrize("path", paths, ids=[str(path.relative_to(ROOT)) for path in paths])


@named(sorted(EXAMPLES.glob("config*.yaml")))
def test_an_example_configuration_is_accepted_and_changes_something(path):
    assert read_settings(path) == load_settings(path.read_text(encoding="utf-8"), path.name)
    assert read_settings(path) != Settings() or path.name == "config-day-3-enforce.yaml"


@named(sorted(EXAMPLES.glob("workloads*.yaml")))
def test_an_example_workload_file_declares_services_and_batch(path):
    classes = {rule.qos.value for rule in load_workloads(path.read_text(encoding="utf-8"), path.name)}
    assert "BE" in classes
    assert classes & {"LS", "LSR", "LSE"}


@named(sorted((EXAMPLES / "snapshots").glob("*.yaml")))
def test_an_example_snapshot_can_be_decided(path):
    snapshot, state = load_snapshot(path.read_text(encoding="utf-8"), path.name)
    assert step(state, snapshot, Settings())[2].failures == ()


def test_every_example_is_of_a_kind_that_is_tested():
    # The traces are read in tests/unit/cli/test_import_trace.py, what is for Kubernetes in tests/unit/kubernetes/test_examples.py.
    tested = {*EXAMPLES.glob("config*.yaml"), *EXAMPLES.glob("workloads*.yaml"), *(EXAMPLES / "snapshots").glob("*.yaml")}
    tested |= {*(EXAMPLES / "traces").glob("usage.csv"), *(EXAMPLES / "traces" / "alibaba-2018").glob("*.csv")}
    tested |= {*(EXAMPLES / "kubernetes").glob("*.yaml")}
    assert {path for path in EXAMPLES.rglob("*") if path.is_file()} == tested


def test_the_three_days_go_from_nothing_written_to_everything():
    day = {number: read_settings(next(EXAMPLES.glob(f"config-day-{number}-*.yaml"))) for number in (1, 2, 3)}
    enforcing = {number: {p for p in Plugin if settings.mode(p) is Mode.ENFORCE} for number, settings in day.items()}
    assert enforcing[1] == {Plugin.SYSTEM_QOS_RESOURCE}  # it takes no action: its number is what the others reckon with
    assert enforcing[2] == set(Plugin) - {Plugin.CPU_EVICT, Plugin.MEMORY_EVICT}
    assert enforcing[3] == set(Plugin)


def test_the_snapshot_with_everything_leaves_no_node_reading_out():
    path = EXAMPLES / "snapshots" / "everything.yaml"
    snapshot, _ = load_snapshot(path.read_text(encoding="utf-8"), path.name)
    assert [name for name in snapshot.missing if name.startswith("node.")] == []


def test_the_pages_are_what_the_code_says():
    """`make docs` writes them anew."""
    assert [str(path.relative_to(ROOT)) for path in GENERATE.out_of_date()] == []


def test_a_command_in_a_page_is_run_and_what_it_prints_replaces_what_stands_there():
    page = "```console\n$ qosmanager plan examples/snapshots/calm.yaml | sed -n '/^Actions/,/^$/p'\nsomething old\n```"
    assert GENERATE.TRANSCRIPT.sub(GENERATE._with_output, page).endswith("\nActions\n  none: every limit stays as it is\n```")


def test_a_setting_in_the_reference_has_its_own_default_bounds_and_meaning():
    keys = GENERATE.keys()
    assert "| `cpuBurst.burstRatio` | `1.5` | a number from 1 to 4 | raised limit as a multiple of the pod's own |" in keys
    assert "| `smoothing.window` | `0s` | a duration from 0s to 1h |" in keys
    assert "| `cpuSuppress.strategy` | `pressure` | one of pressure, usage, slo |" in keys


def test_no_metric_of_the_code_is_left_out_of_the_reference():
    source = (ROOT / "src" / "qosmanager" / "views" / "metrics.py").read_text(encoding="utf-8")
    named = re.findall(r'(?:\{PREFIX\}|_gauge\(\s*"|_counter\(\s*")([a-z0-9_]{3,})', source)
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    assert len(named) > 20
    assert [name for name in named if f"`koordlet_qos_{name}" not in page] == []


@pytest.mark.parametrize("page", ["docs/index.md", "README.zh-CN.md"])
def test_every_command_is_in_the_table_of_commands(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in main.commands if f"`qosmanager {name}`" not in text and f"`{name}`" not in text] == []


def test_an_endpoint_in_the_reference_has_its_answers_and_what_they_hold():
    rows = GENERATE.endpoints().splitlines()[2:]
    assert [row.split("|")[2].strip() for row in rows if row.startswith("| `/status` |")] == ["200", "503"]
    assert "| `/decisions` | `last` | integer from 1 to 500 | `50` |" in GENERATE.parameters()
    bodies = GENERATE.bodies()
    assert "### OutcomeView\n" in bodies
    assert "| `outcome` | [OutcomeView](#outcomeview) or null |" in bodies
    assert "### Thresholds" not in bodies  # the configuration has a reference of its own


def test_the_presets_in_the_reference_are_those_of_section_6():
    rows = {line.split("`")[1]: [cell.strip(" *") for cell in line.split("|")[2:5]] for line in GENERATE.presets().splitlines()[2:]}
    assert rows["cpuPressure.medium"] == ["50", "70", "60"]
    assert rows["cpuBurst.burstRatio"] == ["2", "1.5", "1.5"]
    assert rows["cpuEvict.mode"] == ["enforce", "off", "enforce"]
    assert sum(len(set(row)) > 1 for row in rows.values()) == 9  # the others are those of presets that came later


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0s"), (0.1, "100ms"), (1.0, "1s"), (60.0, "60s"), (90.0, "90s"), (300.0, "5m"), (3600.0, "60m")]
)
def test_a_duration_is_shown_as_a_person_writes_it_and_reads_back_as_the_same(seconds, text):
    assert GENERATE.shown(seconds, "duration") == text
    if 0.1 <= seconds <= 60:
        assert load_settings(f"qosManager: {{syncPeriod: {text}}}", "x") == replace(Settings(), sync_period=seconds)


@named([path for path in PAGES if path.name != "CHANGELOG.md"])
def test_yaml_in_a_page_is_a_document_that_the_program_reads(path):
    for _, language, text in FENCED.findall(path.read_text(encoding="utf-8")):
        if language == "yaml" and text.lstrip().startswith("qosManager:"):
            load_settings(text, path.name)
        elif language == "yaml" and text.lstrip().startswith("about:"):
            load_scenario(text, path.name)
        elif language == "yaml" and "workloads:" in text:
            load_workloads(text, path.name)


@named(PAGES)
def test_every_link_of_a_page_leads_somewhere(path):
    text = FENCED.sub("", path.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def anchors(page: Path) -> set[str]:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    slugs = (re.sub(r"[^\w\s-]", "", title.lower(), flags=re.ASCII).strip() for title in HEADING.findall(text))
    return {re.sub(r"\s+", "-", slug) for slug in slugs} | set(ANCHOR.findall(text))
