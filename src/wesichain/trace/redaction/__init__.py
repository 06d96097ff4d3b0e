"""Taking secrets out: the rules, and the redactor that applies them to events."""
