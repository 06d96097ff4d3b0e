"""The store: what durable runs keep in their database, beside what DBOS keeps there for them."""
