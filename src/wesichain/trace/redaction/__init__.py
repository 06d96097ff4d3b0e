"""Redaction: the rules that find secrets, and the redactor that applies them to events."""
