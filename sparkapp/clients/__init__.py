"""Raw Kafka clients: metadata, group offsets, errors, and the requests to transaction coordinators."""
