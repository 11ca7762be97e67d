"""A node made of numbers, behind the same ports as a real one, and scenarios to run it through (docs/simulate.md)."""
