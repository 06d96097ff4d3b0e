"""The store: the tables of durable runs, beside those of DBOS in the same database."""
