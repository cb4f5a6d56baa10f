"""What the operator watches; each handler notes the object and queues its job, nothing more."""
