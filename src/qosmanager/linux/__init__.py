"""The edge to the kernel: thin implementations of the ports; each takes its root directory."""
