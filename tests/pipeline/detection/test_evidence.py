"""Evidence: weak alone never suffices, families count once, and the score can be read back."""

from ottla.pipeline.detection.evidence import Evidence, combined


def evidence(rule: str, family: str, weight: float, *, is_sufficient: bool = False) -> Evidence:
    return Evidence(rule, family, weight, is_sufficient, rule, {})


def test_a_weak_rule_alone_is_no_alert_however_heavy() -> None:
    assert not combined([evidence("burst", "speed", 0.9)], alert_score=0.5).is_alert


def test_a_self_sufficient_rule_is_enough() -> None:
    assert combined([evidence("shared_device", "device", 0.5, is_sufficient=True)], alert_score=0.5).is_alert


def test_two_families_that_reach_the_limit_are_enough() -> None:
    verdict = combined([evidence("burst", "speed", 0.3), evidence("idle", "idle", 0.2)], alert_score=0.5)
    assert verdict.is_alert
    assert verdict.score == 0.5
    assert verdict.why == "burst (0.3); idle (0.2)"


def test_two_rules_of_one_family_count_once() -> None:
    verdict = combined([evidence("burst", "speed", 0.3), evidence("daily_volume", "speed", 0.3)], alert_score=0.5)
    assert (verdict.score, verdict.is_alert, len(verdict.evidence)) == (0.3, False, 1)


def test_the_order_makes_no_difference_and_the_score_ends_at_one() -> None:
    found = [evidence("a", "x", 0.7), evidence("b", "y", 0.6), evidence("c", "x", 0.7), evidence("d", "z", 0.0)]
    assert combined(found, alert_score=0.5) == combined(reversed(found), alert_score=0.5)
    assert combined(found, alert_score=0.5).score == 1.0
