from zlayout.text import plural


def test_a_count_with_its_noun() -> None:
    assert [plural(n, "file") for n in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]
    assert [plural(n, "query") for n in (1, 2)] == ["1 query", "2 queries"]
    assert plural(2, "day") == "2 days"
