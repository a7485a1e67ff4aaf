"""A guide of docs/guides as a project that can be built and run, in streaming and in batch."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from headrace import config
from headrace.define import graph, loader
from headrace.driver import build
from test_docs import DOCS, Block, blocks

END_S = 120
# A JVM that lives a minute gains nothing from the second compiler.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def page_blocks(page: str) -> list[Block]:
    path = DOCS / page
    return blocks(f"docs/{page}", path.read_text())


@dataclass
class Guide:
    page: str
    folder: Path
    spark: Any
    _fed: int = field(default=0)

    @property
    def blocks(self) -> list[Block]:
        return page_blocks(f"guides/{self.page}.md")

    @property
    def samples(self) -> list[str]:
        """The inputs that the page shows, in its order."""
        return [b.text for b in self.blocks if b.language in ("json", "") and not b.note]

    @property
    def pipeline(self) -> str:
        """The page's last Python file: what comes before is for it."""
        return [b.file for b in self.blocks if b.file and b.language == "python"][-1]

    def write_files(self, change: tuple[str, str] | None = None) -> None:
        for block in self.blocks:
            if block.file:
                text = block.text
                if change and change[0] in text:
                    text = text.replace(*change)
                    change = None
                (self.folder / block.file).write_text(text)
        assert change is None, f"{self.page} does not say {change[0]!r}"

    def feed(self, text: str, into: str = "incoming", suffix: str = "json") -> None:
        """A file that appears whole, newer than the last one: the source takes oldest first."""
        self._fed += 1
        half = self.folder / f".{self._fed}"
        half.write_text(text)
        os.utime(half, (1_700_000_000 + self._fed,) * 2)
        half.rename(self.folder / into / f"{self._fed}.{suffix}")

    def build(self, *, streaming: bool = True) -> build.BuiltPipeline:
        name = Path(self.pipeline).stem
        settings = config.load(self.folder).for_pipeline(name)
        loaded = loader.load(self.pipeline, self.folder, self.folder)
        resolved = graph.resolve(name, loaded.collector, settings)
        return build.build(resolved, self.spark, settings, streaming=streaming)

    def start(self, one: build.PlannedQuery, trigger: dict[str, Any]) -> Any:
        writer = one.sink.attach(
            one.frame.writeStream,
            query=one.query.name,
            mode=one.query.mode,
            checkpoint=one.query.checkpoint,
        )
        return writer.trigger(**trigger).start()

    def drain(self) -> dict[str, int]:
        """All that is there, query by query; how many batches with rows each needed."""
        batches = {}
        for one in self.build().planned:
            query = self.start(one, {"availableNow": True})
            self.end(query)
            done = [p for p in query.recentProgress if p["numInputRows"]]
            batches[one.query.name] = len(done)
        return batches

    def end(self, query: Any) -> None:
        assert query.awaitTermination(END_S), f"{query.name} does not end"

    def written(self, path: str, *columns: str, format: str = "parquet") -> list[tuple[Any, ...]]:
        frame = self.spark.read.format(format).load(str(self.folder / path))
        return rows(frame.select(*columns or ["*"]))

    def in_batch(self, query: str) -> list[tuple[Any, ...]]:
        """What the same definition says over the same files, read as tables."""
        planned = self.build(streaming=False).planned
        return rows(next(p.frame for p in planned if p.query.name == query))


def rows(frame: Any) -> list[tuple[Any, ...]]:
    """Sorted, times as text of the session's zone."""
    found = [tuple(map(_plain, row)) for row in frame.collect()]
    return sorted(found, key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.strftime("%H:%M:%S").removesuffix(":00")
    return round(value, 6) if isinstance(value, float) else value
