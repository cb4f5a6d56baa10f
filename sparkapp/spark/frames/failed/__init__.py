"""Records that fail: the search for one of them, the policy for all of them, and a read of those that do not parse."""
