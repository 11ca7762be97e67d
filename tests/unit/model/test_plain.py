import os

import pytest

from qosmanager.model.plain import plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("shop/api ä 中 [b]", "shop/api ä 中 [b]"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2J\x07\x7f", r"\x1b[2J\x07\x7f"),
        ("\x9b31m\r", r"\x9b31m\r"),
        ("\u202egnp.exe\u2028", r"\u202egnp.exe\u2028"),
        (os.fsdecode(b"be/\xff\xfe"), r"be/\xff\xfe"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_its_escape(text, shown):
    assert plain(text) == shown
