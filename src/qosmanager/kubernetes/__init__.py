"""The cluster's side: pods, evictions, events and configuration by the API server; imported only with --kubernetes."""
