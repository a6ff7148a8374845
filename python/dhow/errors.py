"""Why a call did not do what it should: every exception has a hint where there is something to do about it."""

HINT_NOBODY = (
    "start a node with `dhow node run --config node.toml`, or name the socket of a running one: "
    "dhow.connect('beta/dhow.sock'), or DHOW_NODE")
HINT_DENIED = (
    "your user may not open the node's socket: `ls -l` shows its group; join that group "
    "(`sudo usermod -aG GROUP USER`, then log in again)")
HINT_SILENT = "the node is overloaded or stopped, or another program listens at this address"

# Statuses of a node's response (docs/aap2-dhow.proto, ResponseStatus).
STATUS_SUCCESS, STATUS_ACK, STATUS_ERROR, STATUS_TIMEOUT = 1, 2, 8, 9
STATUS_INVALID_REQUEST, STATUS_NOT_FOUND, STATUS_UNAUTHORIZED = 10, 11, 12

STATUS_TEXTS = {
    STATUS_ERROR: "the node cannot do it now",
    STATUS_TIMEOUT: "it took the node too long",
    STATUS_INVALID_REQUEST: "the node calls the request invalid",
    STATUS_NOT_FOUND: "the node knows no such thing",
    STATUS_UNAUTHORIZED: "the node does not allow it",
}


class DhowError(Exception):
    """The base of all exceptions of this package."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class Unreachable(DhowError):
    """Nobody answers at the node's address."""


class Denied(Unreachable):
    """The system does not let this user open the node's socket."""


class Disconnected(DhowError):
    """The connection was there and is lost: what was not answered may or may not have been done."""


class Silent(DhowError):
    """The node did not answer in the time that a call allows it."""


class ProtocolError(DhowError):
    """The octets are nothing that a node sends at this place."""


class PayloadError(DhowError):
    """The payload to send cannot be read, or ended before its length."""


class Refused(DhowError):
    """The node refused; `status` is the response's status or the HTTP status of the admin API."""

    def __init__(self, message: str, hint: str | None = None, status: int = 0) -> None:
        super().__init__(message, hint)
        self.status = status

    @property
    def is_temporary(self) -> bool:
        """Whether the same request may succeed later: the store is full, say."""
        return self.status in (STATUS_ERROR, 503)


def refused(status: int, message: str) -> Refused:
    """A refusal of the application API."""
    return Refused(message or STATUS_TEXTS.get(status, f"the node answers with status {status}"), status=status)
