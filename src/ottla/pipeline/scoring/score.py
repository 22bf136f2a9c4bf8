"""Compares alerts with a planted truth: precision, recall, delay, and what was paid or withheld wrongly. Pure.

Devices count for switching, accounts for invite fraud: a subject counts once, however many alerts it has.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

DEVICE_RULES: Final = ("many_accounts", "ping_pong")
INVITE_RULES: Final = (
    "shared_device",
    "shared_fingerprint_ip",
    "burst",
    "daily_volume",
    "idle_invitees",
    "neighbour_numbers",
    "region_mismatch",
    "ring_cycle",
    "ring_device",
)
# What an invitation pays in generated traffic; for truths that don't say what an account was paid.
_INVITE_BONUS: Final = 100


class Counts(NamedTuple):
    """Subjects with a right alert, with a wrong alert, and missed ones."""

    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float | None:
        """None without any alert."""
        alerted = self.right + self.wrong
        return self.right / alerted if alerted else None

    @property
    def recall(self) -> float | None:
        planted = self.right + self.missed
        return self.right / planted if planted else None

    @property
    def f1(self) -> float | None:
        whole = 2 * self.right + self.wrong + self.missed
        return 2 * self.right / whole if whole else None

    def plus(self, other: "Counts") -> "Counts":
        return Counts(self.right + other.right, self.wrong + other.wrong, self.missed + other.missed)


class Delay(NamedTuple):
    """From when a cheat could be detected to its alert, in event time; negative where combined evidence was faster."""

    median_ms: int
    p95_ms: int


class Line(NamedTuple):
    """One line of the table: a detector, a rule, or a planted kind."""

    detector: str
    name: str
    unit: str
    counts: Counts
    delays_ms: Sequence[int]
    alerts: int

    @property
    def delay(self) -> Delay | None:
        ordered = sorted(self.delays_ms)
        if not ordered:
            return None
        return Delay(ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)])


class Credits(NamedTuple):
    """Bonuses of invitations."""

    wrongly_paid: int  # to cheats without an alert
    rightly_withheld: int  # from cheats with one
    wrongly_withheld: int  # from honest inviters with one


class Score(NamedTuple):
    """`rules`: an alert that names a rule is right if its subject cheats, and a subject that exactly meets the rule is
    missed if none of its alerts names the rule. `kinds`: what was planted, by kind; only recall.
    """

    settings: Mapping[str, Any]
    accounts: int
    detectors: Sequence[Line]
    rules: Sequence[Line]
    kinds: Sequence[Line]
    decoys: Mapping[str, tuple[int, int]]  # kind -> with a wrong alert, planted
    alerts_per_1000_accounts: float
    credits: Credits


def score_alerts(
    truth: Mapping[str, Any],
    device_alerts: Iterable[Mapping[str, Any]],
    invite_alerts: Iterable[Mapping[str, Any]],
) -> Score:
    """`truth` as `ottla pipeline generate --truth` writes it; alerts as rows of their tables."""
    devices = _Detector("device_switching", "devices")
    for each in truth["devices"]:
        devices.plant(each["device_id"], each["kind"], each["rules"], min(each["rules"].values()))
    for row in device_alerts:
        devices.add_alert(row["device_id"], [row["rule"]], row["detected_ms"])
    inviters = _Detector("invite_fraud", "accounts")
    for each in truth["inviters"]:
        inviters.plant(each["account_id"], each["kind"], each["rules"], each["decidable_ms"])
    invitees: dict[str, int] = {}
    for row in invite_alerts:
        inviters.add_alert(row["inviter_id"], list(json.loads(row["rules"])), row["detected_ms"])
        invitees[row["inviter_id"]] = invitees.get(row["inviter_id"], 0) + len(json.loads(row["invitees"]))
    lines = [
        devices.line("all", devices.planted, devices.alerted),
        inviters.line("all", inviters.planted, inviters.alerted),
    ]
    together = Line(
        "together",
        "all",
        "devices and accounts",
        lines[0].counts.plus(lines[1].counts),
        [*lines[0].delays_ms, *lines[1].delays_ms],
        devices.alerts + inviters.alerts,
    )
    accounts = len(truth["accounts"])
    return Score(
        truth["settings"],
        accounts,
        [*lines, together],
        [*devices.rule_lines(DEVICE_RULES), *inviters.rule_lines(INVITE_RULES)],
        [*devices.kind_lines(), *inviters.kind_lines()],
        _decoys(truth["decoys"], devices.alerted, inviters.alerted),
        1000 * (devices.alerts + inviters.alerts) / max(accounts, 1),
        _credits(truth, inviters, invitees),
    )


def pooled(scores: Sequence[Score]) -> Score:
    """Several runs as one: adds up counts, delays and credits."""
    first, *others = scores
    for other in others:
        first = Score(
            first.settings,
            first.accounts + other.accounts,
            _added(first.detectors, other.detectors),
            _added(first.rules, other.rules),
            _added(first.kinds, other.kinds),
            {
                kind: (
                    first.decoys.get(kind, (0, 0))[0] + other.decoys.get(kind, (0, 0))[0],
                    first.decoys.get(kind, (0, 0))[1] + other.decoys.get(kind, (0, 0))[1],
                )
                for kind in sorted(first.decoys.keys() | other.decoys.keys())
            },
            (first.alerts_per_1000_accounts * first.accounts + other.alerts_per_1000_accounts * other.accounts)
            / max(first.accounts + other.accounts, 1),
            Credits(*(mine + theirs for mine, theirs in zip(first.credits, other.credits, strict=True))),
        )
    return first


def _added(lines: Sequence[Line], others: Sequence[Line]) -> list[Line]:
    found = {(line.detector, line.name): line for line in lines}
    for other in others:
        key = (other.detector, other.name)
        line = found.get(key)
        found[key] = (
            other
            if line is None
            else line._replace(
                counts=line.counts.plus(other.counts),
                delays_ms=[*line.delays_ms, *other.delays_ms],
                alerts=line.alerts + other.alerts,
            )
        )
    return list(found.values())


class _Detector:
    """What one detector should find, and its alerts."""

    def __init__(self, name: str, unit: str) -> None:
        self.name = name
        self.unit = unit
        self.planted: dict[str, str] = {}  # subject -> kind
        self.alerted: dict[str, set[str]] = {}  # subject -> rules
        self.alerts = 0
        self._rules: dict[str, set[str]] = {}
        self._decidable: dict[str, int] = {}
        self._detected: dict[str, int] = {}

    def plant(self, subject: str, kind: str, rules: Mapping[str, int], decidable_ms: int) -> None:
        self.planted.setdefault(subject, kind)
        self._rules.setdefault(subject, set()).update(rules)
        self._decidable[subject] = min(decidable_ms, self._decidable.get(subject, decidable_ms))

    def add_alert(self, subject: str, rules: Collection[str], detected_ms: int) -> None:
        self.alerts += 1
        self.alerted.setdefault(subject, set()).update(rules)
        self._detected[subject] = min(detected_ms, self._detected.get(subject, detected_ms))

    def delays(self, subjects: Iterable[str]) -> list[int]:
        return [self._detected[each] - self._decidable[each] for each in subjects if each in self._detected]

    def line(self, name: str, planted: Collection[str], alerted: Collection[str]) -> Line:
        right = len(set(alerted) & self.planted.keys())
        counts = Counts(right, len(alerted) - right, len(set(planted) - set(alerted)))
        return Line(self.name, name, self.unit, counts, self.delays(planted), self.alerts)

    def rule_lines(self, rules: Iterable[str]) -> list[Line]:
        lines = []
        for rule in rules:
            alerted = [subject for subject, named in self.alerted.items() if rule in named]
            planted = [subject for subject, met in self._rules.items() if rule in met]
            lines.append(self.line(rule, planted, alerted)._replace(alerts=len(alerted)))
        return lines

    def kind_lines(self) -> list[Line]:
        lines = []
        for kind in sorted(set(self.planted.values())):
            planted = [subject for subject, each in self.planted.items() if each == kind]
            found = [subject for subject in planted if subject in self.alerted]
            lines.append(self.line(kind, planted, found)._replace(alerts=len(found)))
        return lines


def _decoys(
    decoys: Iterable[Mapping[str, Any]], devices: Collection[str], inviters: Collection[str]
) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for decoy in decoys:
        is_told = any(each in devices for each in decoy["devices"]) or decoy["inviter_id"] in inviters
        wrong, planted = found.get(decoy["kind"], (0, 0))
        found[decoy["kind"]] = (wrong + is_told, planted + 1)
    return dict(sorted(found.items()))


def _credits(truth: Mapping[str, Any], inviters: _Detector, invitees: Mapping[str, int]) -> Credits:
    paid = {each["account_id"]: 0 for each in truth["inviters"]}
    for each in truth["inviters"]:
        paid[each["account_id"]] = max(paid[each["account_id"]], each["credits_wrongly_paid"])
    accounts = truth["accounts"]
    wrongly_withheld = sum(
        accounts.get(subject, {}).get("invite_bonus", _INVITE_BONUS * invitees[subject])
        for subject in inviters.alerted
        if subject not in paid
    )
    return Credits(
        sum(amount for subject, amount in paid.items() if subject not in inviters.alerted),
        sum(amount for subject, amount in paid.items() if subject in inviters.alerted),
        wrongly_withheld,
    )
