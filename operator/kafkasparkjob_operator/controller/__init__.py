"""The controller: one reconcile per resource, level-triggered, from watches, a queue and a periodic sweep."""
