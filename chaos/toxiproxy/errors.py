"""What a call is refused with; the texts are those of the original server."""

from __future__ import annotations


class ApiError(Exception):
    """An HTTP status and a text for the caller."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def bad_body(detail: str) -> ApiError:
    return ApiError(400, f"bad request body: {detail}")


def missing(field: str) -> ApiError:
    return ApiError(400, f"missing required field: {field}")


def proxy_not_found() -> ApiError:
    return ApiError(404, "proxy not found")


def proxy_exists() -> ApiError:
    return ApiError(409, "proxy already exists")


def toxic_not_found() -> ApiError:
    return ApiError(404, "toxic not found")


def toxic_exists() -> ApiError:
    return ApiError(409, "toxic already exists")


def invalid_type() -> ApiError:
    return ApiError(400, "invalid toxic type")


def invalid_stream() -> ApiError:
    return ApiError(400, "stream was invalid, can be either upstream or downstream")


def invalid(what: str) -> ApiError:
    """A value that the original takes and that would do harm or nothing."""
    return ApiError(400, f"invalid {what}")


def cannot_listen(text: str) -> ApiError:
    return ApiError(500, text)
