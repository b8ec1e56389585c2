"""The pictures in the docs are those that the code draws now."""

import importlib.util
from pathlib import Path

import pytest

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"


@pytest.mark.parametrize("name", ["grid.svg", "boxes.svg"])
def test_the_picture_is_up_to_date(name: str) -> None:
    spec = importlib.util.spec_from_file_location("make_pictures", PICTURES / "make.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    assert make.PICTURES[name]() == (PICTURES / name).read_text()
    assert "9 of 16 files opened" in make.PICTURES["grid.svg"]()
