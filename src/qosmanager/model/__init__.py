"""What is true: frozen typed data without I/O. CPU in cores (float), memory in bytes (int), time in seconds (float)."""
