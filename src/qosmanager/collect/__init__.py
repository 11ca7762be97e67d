"""Measuring: who runs here, bounded history, and the readings of one cycle as a `Snapshot` (specification, section 3)."""
