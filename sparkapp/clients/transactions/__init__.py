"""Requests to transaction coordinators: EndTxn, ListTransactions, DescribeTransactions, InitProducerId."""
