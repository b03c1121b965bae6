from pathlib import Path

from bench import previous
from bench.frame import PRODUCT, Block, Comparison, Measured, Row, Target


def _measured(rate: float, cost: float) -> Measured:
    comparisons = [
        Comparison("rate", lambda blocks: blocks[PRODUCT].rate, Target(1)),
        Comparison("cost", lambda blocks: blocks[PRODUCT].program_us, Target(1, at_most=True)),
        Comparison("latency", lambda blocks: blocks[PRODUCT].rate),
    ]
    row = Row("row", "", [], comparisons)
    return Measured(row, [{PRODUCT: Block(rate, cost, 0, 0)}], {}, {})


def test_ratios_that_became_worse_by_more_than_a_tenth_are_listed(tmp_path: Path) -> None:
    file = tmp_path / "release.json"
    previous.save("1.0.0", [_measured(rate=2.0, cost=0.5)], file)
    release = previous.load(file)
    assert release is not None
    assert previous.slower([_measured(rate=1.9, cost=0.54)], release) == []
    assert previous.slower([_measured(rate=2.5, cost=0.1)], release) == []
    worse = previous.slower([_measured(rate=1.7, cost=0.6)], release)
    assert [(each.comparison, each.before, each.now) for each in worse] == [
        ("rate", 2.0, 1.7),
        ("cost", 0.5, 0.6),
    ]


def test_rows_that_were_not_measured_keep_their_values(tmp_path: Path) -> None:
    file = tmp_path / "release.json"
    assert previous.load(file) is None
    previous.save("1.0.0", [_measured(rate=2.0, cost=0.5)], file)
    previous.save("1.1.0", [], file)
    release = previous.load(file)
    assert release is not None
    assert release.version == "1.1.0"
    assert release.medians == {"row": {"rate": 2.0, "cost": 0.5}}
