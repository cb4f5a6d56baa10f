"""Topics, records and transactions of the local cluster's broker, as readers and administrators see them."""
