"""Where a playbook is kept: files (with FAISS) or Postgres (with psycopg)."""
