"""The agent over HTTP: /metrics, /healthz, /readyz, /status, /decisions (specification, section 7). Read only."""
