"""Which control requests a broker takes: those of the newest controller that it knows, meant for its present life."""

from ottla.core.control import ControlStamp
from ottla.core.errors import ErrorCode
from ottla.core.types import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, ControllerEpoch


class ControlFence:
    """One per broker. The registration sets `broker_epoch`; every control request is checked here first."""

    def __init__(self) -> None:
        self.controller_id: BrokerId = -1
        self.controller_epoch: ControllerEpoch = -1
        self.broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
        self._newest = (-1, NO_BROKER_EPOCH, 0)  # controller epoch, broker epoch and number of a request

    def check(self, stamp: ControlStamp) -> ErrorCode:
        """NONE: take the request, its controller is the newest. Else the answer to all of it.

        A larger broker epoch than our own is ours as well: the controller may see a registration in the store before
        the store's answer is here.
        """
        if stamp.broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        request = (stamp.controller_epoch, stamp.broker_epoch, stamp.number)
        if request < self._newest:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self._newest = request
        self.controller_id = stamp.controller_id
        self.controller_epoch = stamp.controller_epoch
        return ErrorCode.NONE
