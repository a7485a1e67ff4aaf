"""One query that stands still wherever a test asks for it: a file `hold-PHASE` holds it there.

While it stands it shows a file `at-PHASE`, so that nobody has to guess when.
"""

import os
import time
from pathlib import Path

import headrace as hr


def stand(phase):
    while Path(f"hold-{phase}").exists():
        Path(f"at-{phase}").touch()
        time.sleep(0.05)


stand("import")


def keep(batch, batch_id):
    rows = [row["value"] for row in batch.collect()]
    stand("batch")
    folder = Path("data")
    folder.mkdir(exist_ok=True)
    temp = folder / f".{batch_id}"
    temp.write_text("".join(f"{row}\n" for row in rows))
    os.replace(temp, folder / str(batch_id))


@hr.stream(to=hr.each_batch(keep), every="500 ms")
def kept(lines):
    stand("build")
    return lines
