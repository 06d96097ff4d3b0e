"""Runs on disk: written by the recorder, read as recordings, listed and pruned by the folder."""
