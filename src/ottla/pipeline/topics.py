"""The app's topics, for all jobs: what each carries, its key, and the fields of its events."""

from typing import Final, NamedTuple

DEFAULT_PARTITIONS: Final = 4


class Topic(NamedTuple):
    """One stream of events. `payload` are its own fields, beside those of the envelope."""

    name: str
    event_type: str
    key_field: str
    payload: tuple[str, ...]
    table: str


CREDIT: Final = Topic(
    "ml_obtain_credit_log", "obtain_credit", "account_id", ("credit", "reason", "task_id"), "credit_log"
)
LEFT_SLIDE: Final = Topic(
    "ml_ad_left_slide_log", "ad_left_slide", "account_id", ("ad_id", "slot", "duration_ms"), "left_slide_log"
)
RIGHT_SLIDE: Final = Topic(
    "ml_ad_right_slide_log", "ad_right_slide", "account_id", ("ad_id", "slot", "duration_ms"), "right_slide_log"
)
EXPOSURE: Final = Topic("ml_ad_exposure_log", "ad_exposure", "account_id", ("ad_id", "slot"), "exposure_log")
INSTALL: Final = Topic("ml_app_install_log", "app_install", "account_id", ("package", "ad_id"), "install_log")
LOGIN: Final = Topic("ml_login_log", "login", "device_id", ("phone", "login_kind"), "login_log")
VERIFY: Final = Topic(
    "ml_message_verify_log", "message_verify", "account_id", ("phone", "outcome"), "message_verify_log"
)
INVITE: Final = Topic(
    "ml_invite_log", "invite", "inviter_id", ("inviter_id", "invitee_id", "invitee_phone", "channel"), "invite_log"
)
TASK: Final = Topic("ml_task_log", "task", "account_id", ("task_id", "step", "steps_total", "reward"), "task_log")

TOPICS: Final = (CREDIT, LEFT_SLIDE, RIGHT_SLIDE, EXPOSURE, INSTALL, LOGIN, VERIFY, INVITE, TASK)
TOPIC_NAMES: Final = tuple(topic.name for topic in TOPICS)
BY_NAME: Final = {topic.name: topic for topic in TOPICS}
