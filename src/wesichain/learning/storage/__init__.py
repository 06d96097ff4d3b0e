"""The storage of a playbook: files (with FAISS) or Postgres (with psycopg)."""
