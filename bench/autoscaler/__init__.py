"""The autoscaler over curves of load: a simulation of partitions and subtasks around the operator's decision."""
