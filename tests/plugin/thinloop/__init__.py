"""A harness without an SDK: the smallest loop that calls tools."""
