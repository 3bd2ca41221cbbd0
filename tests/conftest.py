"""What holds for all tests."""

from __future__ import annotations

import signal

# Under `nohup` a hang-up is ignored, by us and by all that we start, and a run respects that: tests of it would wait.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
