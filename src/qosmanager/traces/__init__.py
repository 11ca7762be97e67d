"""Public traces and tables of usage made into scenarios for the simulator (docs/simulate.md)."""
