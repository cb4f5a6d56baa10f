"""The continuous engine: long-lived subtasks, each of which keeps its Kafka clients from checkpoint to checkpoint."""
