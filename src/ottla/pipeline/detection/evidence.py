"""How evidence becomes a verdict: the score is a sum of weights, so that a person can retrace it.

Rules of one family say the same thing in two ways, so only the heaviest counts. A score makes an alert when it reaches
the limit and rests on one self-sufficient rule or on two families; a weak rule alone never makes one.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

_DIGITS: Final = 3


class Evidence(NamedTuple):
    """What one rule found: `figures` for machines, `why` for people."""

    rule: str
    family: str
    weight: float
    is_sufficient: bool
    why: str
    figures: Mapping[str, Any]


class Verdict(NamedTuple):
    """The evidence that counted, heaviest first."""

    score: float
    is_alert: bool
    evidence: tuple[Evidence, ...]

    @property
    def why(self) -> str:
        """`6 of 7 invitees idle (0.5); 7 invites in 300 s (0.2)`."""
        return "; ".join(f"{each.why} ({each.weight:g})" for each in self.evidence)


def combined(found: Iterable[Evidence], *, alert_score: float) -> Verdict:
    """The verdict; the order of the evidence makes no difference."""
    heaviest: dict[str, Evidence] = {}
    for each in found:
        rounded = each._replace(weight=round(each.weight, _DIGITS))
        if rounded.weight <= 0:
            continue
        other = heaviest.get(each.family)
        if other is None or (-rounded.weight, rounded.rule) < (-other.weight, other.rule):
            heaviest[each.family] = rounded
    counted = tuple(sorted(heaviest.values(), key=lambda each: (-each.weight, each.rule)))
    score = round(min(1.0, sum(each.weight for each in counted)), _DIGITS)
    stands = len(counted) >= 2 or any(each.is_sufficient for each in counted)
    return Verdict(score, score >= alert_score and stands, counted)
