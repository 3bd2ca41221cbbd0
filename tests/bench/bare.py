"""The bare way, without a harness: hear an event, stop a process, see that it stands.

`python -m tests.bench.bare SOCKET COUNT call|command` prints the seconds of each round as JSON: from the event's own
time stamp to state T, and from the signal to state T. Ours and this hear the same program (`members tick`).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path


def main(address: str, count: int, way: str) -> None:
    """Serve one emitter of `count` ticks."""
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    stat = Path(f"/proc/{victim.pid}/stat")
    rounds = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(address)
        server.listen()
        stream = server.accept()[0].makefile("rb")
        for line in stream:
            message = json.loads(line)
            if message["k"] != "tick.happened":
                continue
            sent = time.monotonic()
            if way == "call":
                os.kill(victim.pid, signal.SIGSTOP)
            else:
                subprocess.run(["kill", "-STOP", str(victim.pid)], check=True)
            while stat.read_text().rpartition(")")[2].split()[0] != "T":
                pass
            done = time.monotonic()
            rounds.append({"event": done - message["t"], "signal": done - sent})
            os.kill(victim.pid, signal.SIGCONT)
            if len(rounds) == count:
                break
    victim.kill()
    victim.wait()
    print(json.dumps(rounds))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
