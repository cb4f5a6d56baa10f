"""The enumerator: discovers partitions and fixes the splits of each checkpoint."""
