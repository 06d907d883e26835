"""Is this the tool that was approved? A hash of description, schema and server identity, checked on every list."""
