"""Records for which the user's function fails: the search for one of them, and the policy for all of them."""
