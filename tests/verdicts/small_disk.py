"""`small_disk.py FOLDER KIB COMMAND…`: a command for which FOLDER is a small disk; what it wrote there is kept.

The disk is a tmpfs in mount and user namespaces of its own, so nobody else sees it and no right is needed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from chaos.drivers.process import init


def main(folder: Path, kib: str, command: list[str]) -> int:
    with init.map_ids():
        init.syscall("unshare", init.CLONE_NEWUSER)
    init.syscall("unshare", init.CLONE_NEWNS)
    init.mount("none", "/", None, init.MS_REC | init.MS_PRIVATE)
    folder.mkdir()
    init.mount("tmpfs", str(folder), "tmpfs", init.MS_NOSUID, f"size={kib}k")
    code = subprocess.run(command, check=False).returncode
    shutil.copytree(folder, f"{folder}-kept", symlinks=True)
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
