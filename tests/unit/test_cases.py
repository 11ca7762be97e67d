"""The worked cases: document in, document out, compared as a whole (specification, section 8)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from qosmanager.config.parse import load_settings
from qosmanager.config.settings import Settings
from qosmanager.documents.snapshot import load_snapshot
from qosmanager.engine.step import step
from qosmanager.views.plan import plan_document

CASES = sorted((Path(__file__).parent.parent / "cases").glob("*.yaml"))


def test_the_worked_cases_are_there():
    assert len(CASES) >= 47


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_case(path):
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    settings = load_settings(yaml.safe_dump(case["config"]), path.name) if "config" in case else Settings()
    snapshot, state = load_snapshot(yaml.safe_dump(case["snapshot"]), path.name)
    _, assessment, plan = step(state, snapshot, settings)
    document = plan_document(assessment, plan)
    for action in document["actions"]:
        assert re.search(r"\d", action.pop("reason")), action
    assert document == case["expect"]
    assert plan.failures == ()
