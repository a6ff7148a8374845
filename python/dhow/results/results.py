"""The directory that `dhow lab run` or `dhow sim run` leaves, as tables of pandas (docs/lab.md, docs/simulation.md)."""

import functools
import json
import os
import sqlite3
import tomllib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from dhow.errors import DhowError
from dhow.results.quantity import half_interval, numbers, unit_of

try:
    import pandas as pd
except ImportError as error:
    raise ImportError("dhow.results needs pandas\nhint: pip install pandas pyarrow") from error

# The measures that a report names, and their columns in runs.csv.
MEASURES = {
    "goodput": "goodput_bit_s", "delivery": "delivery", "delay_median": "delay_median_s", "delay_p95": "delay_p95_s",
    "drain": "drain_s", "cpu_per_mb": "cpu_s_per_mb", "link_seconds_per_mb": "link_s_per_mb", "energy_per_mb": "joules_per_mb",
}


class Results:
    """The results of one scenario.

    `runs` and each `table` have what was swept as columns of their own: numbers in one unit where all values are quantities of one
    kind (sizes in octets, rates in bit/s, times in seconds, parts of 1), else ordered categories. `frame.attrs["units"]` has the
    unit of each column that has one.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not (self.path / "runs.csv").is_file():
            raise DhowError(f"{self.path} has no runs.csv", "name the directory that --out of `dhow lab run` or `dhow sim run` named")

    def __repr__(self) -> str:
        return f"Results({str(self.path)!r})"

    @functools.cached_property
    def manifest(self) -> dict[str, Any]:
        """The needs of a repetition: versions, machine, command, scenario. Empty of simulations, which have none."""
        path = self.path / "manifest.json"
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return found if isinstance(found, dict) else {}

    @functools.cached_property
    def scenario(self) -> dict[str, Any]:
        """The scenario's file; empty of simulations."""
        return tomllib.loads(str(self.manifest.get("scenario", "")))

    @property
    def name(self) -> str:
        """The scenario's name, or that of the directory."""
        return str(self.scenario.get("name") or self.path.name)

    @property
    def report(self) -> dict[str, Any]:
        """The scenario's [report]: question, x, y, group_by, paper."""
        found = self.scenario.get("report", {})
        return found if isinstance(found, dict) else {}

    @functools.cached_property
    def runs(self) -> pd.DataFrame:
        """A line a run."""
        frame = self._read("runs")
        if self._key == "run":
            points = [point_of(text) for text in frame["point"].fillna("").astype(str)]
            for name in dict.fromkeys(name for point in points for name in point):
                frame[name] = swept([point.get(name, "") for point in points])
            frame.attrs["units"] |= {name: unit for name, unit in self._swept_units(points).items() if unit}
        return frame

    @functools.cached_property
    def swept(self) -> list[str]:
        """The keys that are swept, the variant included, and the backend where there are several."""
        if self._key != "run":
            return []
        keys = dict.fromkeys(name for text in self.runs["point"].fillna("").astype(str) for name in point_of(text))
        return [*keys, *(["backend"] if self.runs["backend"].nunique() > 1 else [])]

    @property
    def tables(self) -> list[str]:
        """The tables that are there beside `runs`."""
        return sorted(path.stem for path in self.path.glob("*.csv") if path.stem != "runs" and self._is_table(path))

    @property
    def paper(self) -> pd.DataFrame | None:
        """The paper's figures: x, group, value and what else its file has; None where the scenario names no such file, or it is gone."""
        name = self.report.get("paper")
        if not isinstance(name, str) or not (path := self.path / Path(name).name).is_file():
            return None
        return pd.read_csv(path, comment="#", dtype={"x": "str", "group": "str"}).fillna({"group": ""})

    def table(self, name: str) -> pd.DataFrame:
        """A table such as payloads, links or resources, with what was swept of each line's run; payloads have `delay_s` as well."""
        if name == "runs":
            return self.runs
        frame = self._read(name)
        units = dict(frame.attrs["units"])
        if name == "payloads":
            frame["delay_s"] = frame["delivered_s"] - frame["sent_s"]
            units["delay_s"] = "s"
        if self.swept:
            columns = [column for column in self.swept if column not in frame.columns]
            frame = frame.merge(self.runs[[self._key, *columns]], on=self._key, how="left")
            units |= {column: unit for column, unit in self.runs.attrs["units"].items() if column in columns}
        frame.attrs["units"] = units
        return frame

    def measure(self, name: str) -> "pd.Series[float]":
        """A number of each run, as [report] names it (`goodput`, `figure:NAME:PROGRAM`); or a column of `runs`. Raises KeyError."""
        runs = self.runs.set_index(self._key)
        if name.startswith("figure:"):
            figures = self.table("figures")
            words = name.split(":")
            chosen = figures[figures["name"] == words[1]]
            if len(words) > 2:
                chosen = chosen[chosen["program"] == words[2]]
            if chosen.empty:
                raise KeyError(f"no program tells of {name}")
            return chosen.groupby(self._key)["value"].mean().reindex(runs.index).rename(name)
        if name == "delay_max":
            return self.table("payloads").groupby(self._key)["delay_s"].max().reindex(runs.index).rename(name)
        column = MEASURES.get(name, name)
        if column not in runs.columns:
            raise KeyError(f"{name} is in no column of runs.csv; there are {', '.join(MEASURES)}, delay_max, figure:NAME:PROGRAM and its columns")
        return runs[column].astype(float).rename(name)

    def unit(self, name: str) -> str:
        """The unit of a measure or a column of `runs`; empty for counts and parts of 1."""
        if name.startswith("figure:"):
            figures = self.table("figures")
            found = figures[figures["name"] == name.split(":")[1]]["unit"].dropna()
            return str(found.iloc[0]) if len(found) else ""
        if name == "delay_max":
            return "s"
        return str(self.runs.attrs["units"].get(MEASURES.get(name, name), ""))

    def spread(self, name: str, by: Sequence[str] | None = None) -> pd.DataFrame:
        """A measure over the runs that were done, by what was swept: `mean`, half of its 95 % interval as `half`, `count`."""
        keys = list(self.swept if by is None else by)
        runs = self.runs.set_index(self._key).assign(**{"value": self.measure(name)})
        done = runs[runs["status"] == "done"] if "status" in runs.columns else runs
        groups = done.groupby(keys, observed=True)["value"] if keys else done.groupby(lambda _: 0)["value"]
        frame = groups.agg(["mean", "std", "count"]).reset_index(drop=not keys)
        frame["half"] = [half_interval(std, count) for std, count in zip(frame["std"], frame["count"], strict=True)]
        return frame.drop(columns="std")

    def measurements(self, run: str) -> dict[str, pd.DataFrame]:
        """The measurements of programs in a run of a lab: a table for each measurement point, from measurements.sq3."""
        path = self.path / run / "measurements.sq3"
        if not path.is_file():
            raise DhowError(f"{path} is not there", "only runs with a collector have measurements")
        with closing(sqlite3.connect(f"file:{path.absolute()}?mode=ro", uri=True)) as database:
            names = [name for name, in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {name: pd.read_sql_query(f'SELECT * FROM "{name}"', database) for name in names if not name.startswith("_")}

    def to_parquet(self, path: str | os.PathLike[str]) -> list[Path]:
        """Writes every table into a directory, as Parquet with units; returns the files."""
        place = Path(path)
        place.mkdir(parents=True, exist_ok=True)
        written = []
        for name in ["runs", *self.tables]:
            target = place / f"{name}.parquet"
            self.table(name).to_parquet(target)
            written.append(target)
        return written

    @property
    def _key(self) -> str:
        """The column that names a run."""
        return "run" if self.manifest else "seed"

    def _is_table(self, path: Path) -> bool:
        """Whether a file has lines of runs; others are those of papers."""
        with path.open(encoding="utf-8") as file:
            return self._key in file.readline(1000).rstrip("\n").split(",")

    def _read(self, name: str) -> pd.DataFrame:
        path = self.path / f"{name}.csv"
        if not path.is_file() or not self._is_table(path):
            raise DhowError(f"{self.path} has no table {name}", f"there are {', '.join(['runs', *self.tables])}")
        frame = pd.read_csv(path, dtype={"run": "str", "seed": "uint64", "point": "str", "trace_hash": "str"})
        frame.attrs["units"] = {column: unit for column in frame.columns if (unit := unit_of(column))}
        return frame

    def _swept_units(self, points: list[dict[str, str]]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in {name for point in points for name in point}:
            values = numbers([point[name] for point in points if name in point])
            found[name] = values[1] if values else ""
        return found


def point_of(text: str) -> dict[str, str]:
    """The swept values of a run: `traffic.size=1kB;variant=flash`. `traffic.size=1kB;variant=flash`."""
    return {name: value for name, _, value in (part.partition("=") for part in text.split(";") if part)}


def swept(texts: list[str]) -> "pd.Series[Any]":
    """A swept key as a column."""
    if found := numbers(texts):
        return pd.Series(found[0])
    return pd.Series(pd.Categorical(texts, categories=list(dict.fromkeys(texts)), ordered=True))


def load(path: str | os.PathLike[str]) -> Results:
    """The results in a directory. Raises DhowError where there are none."""
    return Results(path)


def load_all(path: str | os.PathLike[str]) -> dict[str, Results]:
    """The results of every scenario of a directory of labs, by the names of their directories; of one scenario, that alone."""
    place = Path(path)
    if (place / "runs.csv").is_file():
        return {place.name: Results(place)}
    found = {child.name: Results(child) for child in sorted(place.iterdir()) if (child / "runs.csv").is_file()} if place.is_dir() else {}
    if not found:
        raise DhowError(f"{place} has no results", "name the directory that --out of `dhow lab run DIRECTORY` named")
    return found
