"""Kubernetes as the application uses it: the checkpoint's ConfigMaps, the report, the job's resource, the own pod."""
