"""The options of `%%sql`, and how IPython finds the extension. Cells run in test_in_a_kernel.py."""

from __future__ import annotations

import pytest

import headrace
from headrace.errors import ConnectorError
from headrace.notebook import magics


def test_options_of_a_cell_are_those_of_display() -> None:
    found = magics._options('title="Orders per item" chart=bar x=item y=amount,price rows=5')

    assert found == {
        "title": "Orders per item",
        "chart": "bar",
        "x": "item",
        "y": ["amount", "price"],
        "rows": 5,
    }


@pytest.mark.parametrize(
    ("line", "fix"),
    [("titel=Orders", "Did you mean title=…?"), ("SELECT", "Start the SQL on the next line.")],
)
def test_an_option_that_is_not_known_names_the_one_that_is_meant(line: str, fix: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        magics._options(line)

    assert caught.value.fix == fix
    assert "title=…, chart=…" in str(caught.value.why)


def test_ipython_finds_the_extension_and_a_star_import_does_not_take_it_along() -> None:
    assert headrace.load_ipython_extension is magics.load_ipython_extension
    assert "load_ipython_extension" not in headrace.__all__
