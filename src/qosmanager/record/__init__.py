"""Recordings: every cycle on disk, small and torn-proof, and decided again from there (docs/record.md)."""
