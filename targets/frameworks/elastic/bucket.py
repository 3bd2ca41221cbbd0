"""`python -m targets.frameworks.elastic.bucket`: an S3-compatible object store in memory (moto), with one bucket."""

from __future__ import annotations

import threading
from typing import Any

import boto3
from botocore.config import Config
from moto.server import ThreadedMotoServer

from chaos.inside import emit, hello
from targets.frameworks.elastic.place import ADDRESS, NODE, NODES

BUCKET, PORT = "job", 9000


def client(address: str = "") -> Any:
    """A client as users make one: two tries for each call."""
    return boto3.client(
        "s3", endpoint_url=f"http://{address or NODES['o0']}:{PORT}", region_name="us-east-1",
        aws_access_key_id="job", aws_secret_access_key="job",
        config=Config(retries={"mode": "standard", "total_max_attempts": 2}),
    )  # fmt: skip


def main() -> None:
    hello("objects-0", role="objects", node=NODE)
    ThreadedMotoServer(ADDRESS, PORT, verbose=False).start()
    client(ADDRESS).create_bucket(Bucket=BUCKET)
    emit("objects.ready")
    threading.Event().wait()


if __name__ == "__main__":
    main()
