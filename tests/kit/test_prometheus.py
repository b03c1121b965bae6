"""Totals include the metrics of ended processes, whose files are removed. No file is sparse."""

import os
import subprocess
import sys
from pathlib import Path

from manilla.kit import prometheus

COUNT = """
import os
from manilla import metrics

metrics.notifications.labels("delivered").inc(2)
metrics.request_seconds.labels("/x").observe(0.3)
metrics.notifications_waiting.set(int(os.environ["WAITING"]))
"""
READ = """
from manilla.kit import prometheus

prometheus.merge_ended_processes()
print(prometheus.render().decode())
"""


def _run(program: str, folder: Path, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder), **environment},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_metrics_files_of_ended_processes_are_merged_without_losing_counts(tmp_path: Path) -> None:
    for waiting in ("7", "4"):
        _run(COUNT, tmp_path, WAITING=waiting)
    for _ in range(2):  # The second pass finds no more files to merge.
        lines = _run(READ, tmp_path).splitlines()
        assert 'manilla_notifications_total{state="delivered"} 4.0' in lines
        assert 'manilla_request_seconds_count{endpoint="/x"} 2.0' in lines
        assert 'manilla_request_seconds_bucket{endpoint="/x",le="0.5"} 2.0' in lines
        assert "manilla_notifications_waiting 4.0" in lines
    kinds = [file.name for file in tmp_path.glob("*_0.db")]
    assert sorted(kinds) == ["counter_0.db", "gauge_mostrecent_0.db", "histogram_0.db"]
    others = {file.stem.rsplit("_", 1)[1] for file in tmp_path.glob("*.db")} - {"0"}
    assert len(others) <= 1  # Only the most recent process's file may remain unmerged.


MANY = """
from manilla import metrics

for number in range(1000):
    metrics.notifications.labels(str(number)).inc()
"""


def test_metrics_files_have_their_space_on_the_disk_before_it_is_used(tmp_path: Path) -> None:
    _run(MANY, tmp_path)  # the file grows
    file = next(tmp_path.glob("counter_*.db")).stat()
    assert file.st_size > prometheus.MetricsFile.FIRST_BYTES
    assert file.st_blocks * 512 >= file.st_size
