"""The report: figures from results, the page and its drawings."""
