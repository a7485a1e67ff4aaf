"""A good checkpoint as plain files: two file-like sources, one stateful operator, batches 0 to 5.

As Spark 4.2 writes it (compared with a real one), with Hadoop's checksums beside the logs.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

QUERY_ID = "6d1df9dd-fc3e-4a65-b648-74a36a7ea07c"
LAST = 5
CONF = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.join.stateFormatVersion": "2"}


def offsets_text(batch: int) -> str:
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1700000000000 + batch, "conf": CONF}
    kafka = json.dumps({"logs": {"0": 10 * batch, "1": 12 * batch}}, separators=(",", ":"))
    lines = ["v1", json.dumps(metadata, separators=(",", ":")), f'{{"logOffset":{batch}}}', kafka]
    return "\n".join(lines)


def put(path: Path, text: str) -> None:
    """With its checksum, as Hadoop's local file system does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode()
    path.write_bytes(content)
    chunks = [content[i : i + 512] for i in range(0, len(content), 512)]
    sums = b"".join(struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + struct.pack(">I", 512) + sums)


def good(path: Path) -> Path:
    put(path / "metadata", f'{{"id":"{QUERY_ID}"}}')
    for batch in range(LAST + 1):
        put(path / "offsets" / str(batch), offsets_text(batch))
        put(path / "commits" / str(batch), 'v1\n{"nextBatchWatermarkMs":0}')
        put(path / "sources" / "0" / str(batch), f'v1\n{{"path":"/in/{batch}","batchId":{batch}}}')
        for partition in ("0", "1"):
            file = path / "state" / "0" / partition / f"{batch + 1}.delta"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"\x00\x00\x00\x01state")
    operator = '{"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"}}'
    put(path / "state" / "0" / "_metadata" / "metadata", f"v1\n{operator}")
    return path


def plain(path: Path) -> Path:
    """The same without checksums, as on an object store."""
    good(path)
    for crc in path.rglob(".*.crc"):
        crc.unlink()
    return path
