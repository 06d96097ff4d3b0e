"""Information flow: outside text moves nothing alone. A rule for approvals, over what a run has stored."""
