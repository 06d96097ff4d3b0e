"""The rules of the loop: pure judgements on replies, answers, approvals and repetitions."""

__all__: list[str] = []
