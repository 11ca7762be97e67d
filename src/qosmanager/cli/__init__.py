"""The commands, one file each, and the agent put together from its parts."""
