"""How much random testing a run does: QOSM_EXAMPLES=1000 pytest tests/property for a longer one."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("project", max_examples=int(os.environ.get("QOSM_EXAMPLES", "60")), deadline=None, print_blob=True)
settings.load_profile("project")
