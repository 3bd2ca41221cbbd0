"""The results store: one SQLite file that holds what every run proved; many runs may write to it at the same time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from chaos.errors import ArchiveError
from chaos.evidence import Evidence

NAME = "results.sqlite"  # in the folder of the runs
FORMAT = 1
_PATIENCE = 30.0  # seconds to wait for another writer
_TABLE = """
create table if not exists runs(
    run text primary key,
    target text not null,
    experiment text not null,
    started real not null,
    evidence blob not null
) strict;
"""


class Archive:
    """Opened for writing, the file and its folder are made where they are missing; for reading, they must be there.

    Every method raises ArchiveError, with the file and the reason, where the file cannot be read or written, is no
    results store, or is one of a newer version. Nothing is ever changed or removed: a run stands as it was judged when
    it ended.
    """

    def __init__(self, path: Path, *, write: bool = False) -> None:
        self.path = path
        try:
            if not write and not path.is_file():
                raise ArchiveError(f"{path}: no results store; `chaos run` keeps one in the folder of its runs")
            if write:
                path.parent.mkdir(parents=True, exist_ok=True)
            mode = "rwc" if write else "ro"
            self._file = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=_PATIENCE, isolation_level=None
            )
        except (OSError, sqlite3.Error) as error:
            raise ArchiveError(f"{path}: {error}") from error
        try:
            self._prepare(write)
        except sqlite3.Error as error:
            self._file.close()
            raise ArchiveError(f"{path}: {error}") from error
        except ArchiveError:
            self._file.close()
            raise

    def _prepare(self, write: bool) -> None:
        (found,) = self._file.execute("pragma user_version").fetchone()
        if found > FORMAT:
            raise ArchiveError(f"{self.path}: written by a newer version of chaos (format {found}, this one: {FORMAT})")
        if not write and found == 0:
            raise ArchiveError(f"{self.path}: no results store")
        if not write and (damage := self._file.execute("pragma quick_check(1)").fetchone()[0]) != "ok":
            raise ArchiveError(f"{self.path}: damaged, so that runs may be missing: {damage}")
        if write and found == 0:
            # `immediate`: of two that make it at the same time one waits, and then finds it made.
            self._file.executescript(f"begin immediate;{_TABLE}pragma user_version = {FORMAT};commit;")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; twice is harmless."""
        self._file.close()

    def add(self, evidence: Evidence) -> bool:
        """Keep the evidence of a run, durably; whether it is new. A run that is known stands as it is.

        What could not be read again is refused: one such row would cost all the others.
        """
        try:
            kept = msgspec.json.encode(evidence)
            _decode(kept)
        except (msgspec.MsgspecError, ValueError, OverflowError) as error:
            raise ArchiveError(f"{self.path}: {evidence.run!a} cannot be kept: {error}") from error
        row = (evidence.run, evidence.target, evidence.experiment, evidence.started, kept)
        try:
            done = self._file.execute("insert into runs values (?, ?, ?, ?, ?) on conflict do nothing", row)
        except sqlite3.Error as error:
            raise ArchiveError(f"{self.path}: {error}") from error
        return done.rowcount > 0

    def runs(self, experiments: Iterable[str] = ()) -> list[Evidence]:
        """The runs of these experiments, all where none is named. Oldest first."""
        wanted = list(experiments)
        where = f" where experiment in ({', '.join('?' * len(wanted))})" if wanted else ""
        try:
            columns = "evidence, run, target, experiment, started"
            rows = self._file.execute(f"select {columns} from runs{where} order by started, run", wanted).fetchall()
            return [self._read(*row) for row in rows]
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            raise ArchiveError(f"{self.path}: {error}") from error

    def _read(self, kept: bytes, *columns: object) -> Evidence:
        """A row by which a run is found must be of the run that it holds."""
        found = _decode(kept)
        if columns != (found.run, found.target, found.experiment, found.started):
            raise ArchiveError(f"{self.path}: the row of {columns[0]} holds another run: somebody changed it")
        return found

    def known(self) -> frozenset[str]:
        """The names of all runs."""
        try:
            return frozenset(row[0] for row in self._file.execute("select run from runs"))
        except sqlite3.Error as error:
            raise ArchiveError(f"{self.path}: {error}") from error


_decode = msgspec.json.Decoder(Evidence).decode
