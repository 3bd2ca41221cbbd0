"""`python -m targets.trainer.objects`: an S3-compatible object store, in memory, with the job's bucket."""

from __future__ import annotations

import os
import threading

import boto3
from moto.server import ThreadedMotoServer

from chaos import inside
from targets.trainer.settings import OBJECTS_PORT
from targets.trainer.store.bucket import BUCKET


def main() -> None:
    address = os.environ.get("CHAOS_ADDRESS") or "127.0.0.1"
    member = os.environ.get("CHAOS_MEMBER") or "objects"
    inside.hello(member, role="objects", node=os.environ.get("CHAOS_NODE") or "o0")
    server = ThreadedMotoServer(address, OBJECTS_PORT, verbose=False)
    server.start()
    client = boto3.client(
        "s3", endpoint_url=f"http://{address}:{OBJECTS_PORT}", region_name="us-east-1",
        aws_access_key_id="trainer", aws_secret_access_key="trainer",
    )  # fmt: skip
    client.create_bucket(Bucket=BUCKET)
    inside.emit("objects.ready", address=[address, OBJECTS_PORT])
    threading.Event().wait()


if __name__ == "__main__":
    main()
