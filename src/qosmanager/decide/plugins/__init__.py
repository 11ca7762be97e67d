"""The six strategies, one file each: plugin(facts, draft) -> draft (specification, section 5)."""
