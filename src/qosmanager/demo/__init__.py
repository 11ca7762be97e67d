"""The demo: real workloads in real cgroups, first without and then with the agent, measured from outside."""
