"""Group membership: a member of a consumer group whose coordinator assigns the partitions."""
