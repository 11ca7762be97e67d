"""Acting: the ResourceExecutor's ordered, verified writes, the Evictor, and the ledger of what is ours (specification, section 9)."""
