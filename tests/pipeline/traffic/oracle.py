"""The rules of the pipeline's jobs 2 and 3 over plain events, written apart from the generator, to hold it against."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ottla.pipeline.traffic.events import Event

DAY_MS = 24 * 3_600_000


def values(events: Iterable[Event], topic: str) -> list[dict[str, object]]:
    return [event.value for event in events if event.topic == topic and isinstance(event.value, dict)]


def switching_devices(events: Sequence[Event]) -> dict[str, set[str]]:
    """Device -> rules, by looking at every window of its logins."""
    logins: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for value in values(events, "ml_login_log"):
        logins[str(value["device_id"])].append((int(str(value["event_time"])), str(value["account_id"])))
    found: dict[str, set[str]] = {}
    for device_id, of_device in logins.items():
        rules = set()
        for first_ms, _ in of_device:
            in_a_day = [account for time_ms, account in of_device if first_ms <= time_ms < first_ms + DAY_MS]
            if len(set(in_a_day)) >= 3:
                rules.add("many_accounts")
            in_ten_minutes = [account for time_ms, account in of_device if first_ms <= time_ms < first_ms + 600_000]
            returns = sum(
                a == c != b for a, b, c in zip(in_ten_minutes, in_ten_minutes[1:], in_ten_minutes[2:], strict=False)
            )
            if returns >= 4:
                rules.add("ping_pong")
        if rules:
            found[device_id] = rules
    return found


def neighbour_inviters(events: Sequence[Event]) -> set[str]:
    """Inviters with three invitees whose numbers lie within twenty of each other."""
    phones: dict[str, list[int]] = defaultdict(list)
    for value in values(events, "ml_invite_log"):
        phones[str(value["inviter_id"])].append(int(str(value["invitee_phone"])[1:]))
    found = set()
    for inviter_id, numbers in phones.items():
        numbers.sort()
        if any(c - a <= 20 for a, _, c in zip(numbers, numbers[1:], numbers[2:], strict=False)):
            found.add(inviter_id)
    return found


def burst_inviters(events: Sequence[Event]) -> set[str]:
    """Inviters with more than five invitations within 300 seconds."""
    times: dict[str, list[int]] = defaultdict(list)
    for value in values(events, "ml_invite_log"):
        times[str(value["inviter_id"])].append(int(str(value["event_time"])))
    return {
        inviter_id
        for inviter_id, of_inviter in times.items()
        if any(later - earlier <= 300_000 for earlier, later in zip(of_inviter, of_inviter[5:], strict=False))
    }


def idle_inviters(events: Sequence[Event]) -> set[str]:
    """Inviters of at least five, of whom four fifths do nothing beyond the welcome task in the 24 hours after."""
    acts: dict[str, list[int]] = defaultdict(list)
    for event in events:
        assert isinstance(event.value, dict)
        is_activity = event.topic in (
            "ml_ad_exposure_log",
            "ml_ad_left_slide_log",
            "ml_ad_right_slide_log",
            "ml_app_install_log",
        ) or (event.topic == "ml_task_log" and event.value["task_id"] != "welcome")
        if is_activity:
            acts[str(event.value["account_id"])].append(event.event_time_ms)
    idle: dict[str, list[bool]] = defaultdict(list)
    for value in values(events, "ml_invite_log"):
        invited_ms = int(str(value["event_time"]))
        done = [time_ms for time_ms in acts[str(value["invitee_id"])] if invited_ms <= time_ms < invited_ms + DAY_MS]
        idle[str(value["inviter_id"])].append(not done)
    return {
        inviter_id
        for inviter_id, of_inviter in idle.items()
        if len(of_inviter) >= 5 and sum(of_inviter) >= 0.8 * len(of_inviter)
    }


def cycle_members(events: Sequence[Event]) -> set[str]:
    """Accounts from which invitations lead back to themselves."""
    graph: dict[str, set[str]] = defaultdict(set)
    for value in values(events, "ml_invite_log"):
        graph[str(value["inviter_id"])].add(str(value["invitee_id"]))
    members = set()
    for start in list(graph):
        reached: set[str] = set()
        frontier = [start]
        while frontier:
            for account in graph.get(frontier.pop(), ()):
                if account not in reached:
                    reached.add(account)
                    frontier.append(account)
        if start in reached:
            members.add(start)
    return members
