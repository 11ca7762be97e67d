"""What is wanted: settings, presets, and the reading of configuration files (specification, section 6)."""
