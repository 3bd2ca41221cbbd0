"""The first moments of a started experiment: this file, run by its path with the standard library only.

`begin.py PIPE MARKER COMMAND…` waits for the word of whoever started it that it is on record, makes the marker, which
must not exist, and becomes the command. So of a kill at any moment one of two things is left: no marker, and then
nothing ran or ever will; or a marker, and then the command was started, once.
"""

from __future__ import annotations

import os
import sys

GO = b"g"


def main() -> None:
    """Become the command, or end without a trace."""
    pipe, marker, *command = sys.argv[1:]
    if os.read(int(pipe), 1) != GO:
        sys.exit(0)  # whoever started us has died before it had written down who we are
    os.close(int(pipe))
    os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    folder = os.open(os.path.dirname(marker), os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
