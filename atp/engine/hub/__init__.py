"""Data sets of the Hugging Face hub: fetched by the `datasets` library in an environment of its own."""
