"""The servers behind the gateway, over HTTP and over pipes."""
