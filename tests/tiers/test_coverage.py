"""Coverage is summed by room; the files with most lines that didn't run are named first."""

from tests.tiers.coverage import by_room, table

FILES = {
    "compiler/hir/text.py": {"summary": {"num_statements": 80, "covered_lines": 60}},
    "compiler/hir/verify.py": {"summary": {"num_statements": 20, "covered_lines": 20}},
    "compiler/schedule/gpu/tiles/rows.py": {"summary": {"num_statements": 100, "covered_lines": 25}},
    "compiler/driver.py": {"summary": {"num_statements": 0, "covered_lines": 0}},
}


def test_rooms_are_summed() -> None:
    rooms = {room: (lines.run, lines.all, lines.share) for room, lines in by_room(FILES).items()}
    assert rooms == {"compiler/hir": (80, 100, 0.8), "compiler/schedule": (25, 100, 0.25), "compiler": (0, 0, 1.0), "all": (105, 200, 0.525)}


def test_the_table() -> None:
    assert table(FILES).splitlines() == [
        "100.0% of      0 statements  compiler",
        " 80.0% of    100 statements  compiler/hir",
        " 25.0% of    100 statements  compiler/schedule",
        " 52.5% of    200 statements  all",
        "",
        "most statements that no test ran:",
        "    75 of    100  compiler/schedule/gpu/tiles/rows.py",
        "    20 of     80  compiler/hir/text.py",
    ]
