"""How a run ends in which a cluster did what a correct one never does."""


class BrokenRule(Exception):
    """`name` is the rule, `detail` what was seen against it."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name
        self.detail = detail
