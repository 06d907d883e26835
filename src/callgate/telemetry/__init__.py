"""To be watched: structured logs, Prometheus metrics, OpenTelemetry spans. None carries arguments or secrets."""
