"""`small_disk.py FOLDER KIB COMMAND…`: a command for which FOLDER is a small disk; what it wrote there is kept.

The disk is a tmpfs in mount and user namespaces of its own, so nobody else sees it and no right is needed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from chaos.drivers.process import kernel


def main(folder: Path, kib: str, command: list[str]) -> int:
    kernel.enter_user_namespace(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    folder.mkdir()
    kernel.mount("tmpfs", str(folder), "tmpfs", kernel.MS_NOSUID, f"size={kib}k")
    code = subprocess.run(command, check=False).returncode
    shutil.copytree(folder, f"{folder}-kept", symlinks=True)
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
