"""The values that learning is about: tasks and their traces, feedback, bullets and their stages."""
