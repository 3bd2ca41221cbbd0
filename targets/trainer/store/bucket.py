"""Generations in a bucket of an S3-compatible object store.

Nothing is renamed and nothing is written over: a piece is put only where there is none (`If-None-Match: *`), the
manifest last and the marker after it. One budget of time covers all tries of a call. When a put finds its key taken,
and what is there bears the digest of what was to be put, then an earlier try had succeeded and its answer was lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

from chaos.inside import recovery_path
from targets.trainer import defects
from targets.trainer.settings import Settings
from targets.trainer.store.shelf import Shelf
from targets.trainer.wire import backoff, digest

BUCKET = "checkpoints"
AGAIN = frozenset({"SlowDown", "Throttling", "RequestTimeout", "InternalError", "ServiceUnavailable", "503", "500"})
MISSING = frozenset({"NoSuchKey", "404"})
TAKEN = "PreconditionFailed"
Answer = TypeVar("Answer")


class Trouble(OSError):
    """The object store does not do it within the budget."""


class Bucket(Shelf):
    """A bucket, which exists."""

    def __init__(self, endpoint: str, settings: Settings) -> None:
        self._settings = settings
        patience = min(settings.try_timeout, settings.objects_budget)
        own = Config(
            retries={"mode": "standard", "max_attempts": 1},  # one layer retries, and it is this one
            connect_timeout=patience, read_timeout=patience, s3={"addressing_style": "path"},
        )  # fmt: skip
        self._client: Any = boto3.client(
            "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="trainer",
            aws_secret_access_key="trainer", config=own,
        )  # fmt: skip

    def close(self) -> None:
        """Drop the connections."""
        self._client.close()

    def folders(self) -> list[str]:
        return sorted({key.partition("/")[0] for key in self._keys("")})

    def names(self, folder: str) -> set[str]:
        return {key.removeprefix(f"{folder}/") for key in self._keys(f"{folder}/")}

    def has(self, key: str) -> bool:
        return self._digest(key) is not None

    def read(self, key: str) -> bytes:
        def get() -> bytes:
            content: bytes = self._client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
            return content

        return self._call(key, get)

    def create(self, key: str, data: bytes, *, content: bool = True, name: bool = True) -> None:
        self._put(key, data, IfNoneMatch="*")

    def replace(self, key: str, data: bytes, *, content: bool = True, name: bool = True) -> None:
        self._put(key, data)

    def remove(self, folder: str) -> None:
        keys = self._keys(f"{folder}/")
        # The marker first: what is half removed is not committed any more.
        for key in sorted(keys, key=lambda key: not key.endswith("/COMMITTED")):
            self._call(key, lambda key=key: self._client.delete_object(Bucket=BUCKET, Key=key))  # type: ignore[misc]

    def _put(self, key: str, data: bytes, **condition: str) -> None:
        name = digest(data)

        def put() -> None:
            self._client.put_object(Bucket=BUCKET, Key=key, Body=data, Metadata={"digest": name}, **condition)

        try:
            self._call(key, put)
        except FileExistsError as taken:
            if defects.active(self._settings, defects.LOST_RESPONSE_IS_FAILURE) or self._digest(key) != name:
                raise Trouble(f"{key} is there already") from taken
            with recovery_path("storage.own_write_found"):
                return

    def _digest(self, key: str) -> str | None:
        """That of the piece, as it was put; None when there is none."""

        def head() -> str:
            metadata: dict[str, str] = self._client.head_object(Bucket=BUCKET, Key=key)["Metadata"]
            return metadata.get("digest", "")

        try:
            return self._call(key, head)
        except FileNotFoundError:
            return None

    def _keys(self, prefix: str) -> list[str]:
        def listed() -> list[str]:
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
            return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

        return self._call(prefix, listed)

    def _call(self, key: str, once: Callable[[], Answer]) -> Answer:
        """Call until it is answered, within the budget."""
        end, attempt = time.monotonic() + self._settings.objects_budget, 0
        try:
            return once()
        except (ClientError, BotoCoreError) as error:
            self._give_up_unless_worth_it(key, error)
            last: Exception = error
        with recovery_path("storage.retry"):
            while True:
                pause = backoff(attempt)
                attempt += 1
                if time.monotonic() + pause >= end:
                    raise Trouble(f"{key}: {last}") from last
                time.sleep(pause)
                try:
                    return once()
                except (ClientError, BotoCoreError) as error:
                    self._give_up_unless_worth_it(key, error)
                    last = error

    @staticmethod
    def _give_up_unless_worth_it(key: str, error: Exception) -> None:
        if isinstance(error, ClientError):
            code = str(error.response["Error"]["Code"])
            if code not in AGAIN:
                _refused(key, code, error)
        elif not isinstance(error, ConnectionError | HTTPClientError):
            raise Trouble(f"{key}: {error}") from error


def _refused(key: str, code: str, error: Exception) -> NoReturn:
    if code in MISSING:
        raise FileNotFoundError(key) from error
    if code == TAKEN:
        raise FileExistsError(key) from error
    raise Trouble(f"{key}: {error}") from error
