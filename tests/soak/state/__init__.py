"""Schedules of jobs with state: real drivers with Spark, killed and frozen, and state that is divided."""
