"""One pass and its pace: step (pure), cycle (measure -> assess -> decide -> act -> verify), runner (specification, section 2)."""
