"""What every benchmark and every harness must show, as package code."""
