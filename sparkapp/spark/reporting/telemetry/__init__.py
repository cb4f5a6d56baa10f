"""What an attempt tells collectors: spans of OpenTelemetry, and events of OpenLineage."""
