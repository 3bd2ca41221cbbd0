"""Transparent use: the kernel redirects connections to a proxy, which goes on to where they wanted to go."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from .harness import PATIENCE, ROOT

pytestmark = pytest.mark.slow

UNSHARE = ["unshare", "--user", "--map-root-user", "--net"]


def own_network() -> str:
    """Why there can be no network of our own, or nothing."""
    if shutil.which("unshare") is None:
        return "needs unshare (util-linux)"
    tried = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, timeout=PATIENCE)
    return f"user namespaces are closed: {tried.stderr.strip()}" if tried.returncode else ""


def test_a_redirected_connection_reaches_where_it_wanted_to_go() -> None:
    if reason := own_network():
        pytest.skip(reason)
    pytest.importorskip("pyroute2", reason="needs pyroute2: pip install 'mlchaos[network]'")
    command = [*UNSHARE, sys.executable, "-m", "tests.toxiproxy_server.redirected"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50)
    if "NetlinkError" in done.stderr:
        pytest.skip(f"this kernel does not redirect: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    opened, hit, refused = (
        next(event for event in found["events"] if event["event"] == kind)
        for kind in ("connection.opened", "toxic.hit", "connection.refused")
    )
    assert found["said"] == "real"
    assert opened["upstream"] == f"127.0.0.1:{found['port']}"
    assert (hit["connection"], hit["bytes"]) == (1, 4)
    assert found["direct"] == ""
    assert refused["reason"].startswith("no original destination")


def test_a_mark_that_may_not_be_set_is_refused_at_the_start() -> None:
    if reason := own_network():
        pytest.skip(reason)
    command = ["unshare", "--user", sys.executable, "-m", "chaos.toxiproxy", "--port", "0", "--mark", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert "CAP_NET_ADMIN" in done.stderr
