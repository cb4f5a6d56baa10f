"""The operator of KafkaSparkJob resources: starts, watches, rescales and stops each job's driver."""
