"""QOSManager: latency-sensitive services and best-effort batch work on one machine (docs/specification.md)."""

__version__ = "0.1.0"
