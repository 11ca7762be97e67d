"""How answers of servers are read, whoever asks."""
