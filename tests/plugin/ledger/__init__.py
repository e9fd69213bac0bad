"""A benchmark with stateful tools and a user of two turns."""
