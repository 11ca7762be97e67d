"""The same day under another configuration: a recording made into a node of the simulator (docs/record.md)."""
