"""The engine and its peers: programs that do the same work from Kafka to Kafka, in interleaved rounds of one run."""
