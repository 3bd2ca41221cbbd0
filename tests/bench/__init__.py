"""What the harness costs and how exact it is, beside a peer where one can be installed. Programs, not tests.

`python -m tests.bench [startup schedule trigger abort journal judge cost]` prints figures side by side and writes them
to `test-output/bench.json`; nothing asserts on time. The peer is Chaos Toolkit in a venv of its own.
"""
