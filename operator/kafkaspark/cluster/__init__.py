"""What a person does to jobs of a cluster: snapshots, restores, and commands in a pod."""
