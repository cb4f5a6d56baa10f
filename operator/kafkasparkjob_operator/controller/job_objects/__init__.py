"""The objects of a job: what a plan creates, changes and deletes, and what all attempts share."""
