from enum import Enum
from typing import Annotated

import pytest
from msgspec import Meta, Struct

from qosmanager.documents.problem import MOST, DocumentError
from qosmanager.documents.quantities import Rule
from qosmanager.documents.reader import Grammar, Reader, nearest
from qosmanager.documents.tree import parse


class Colour(Enum):
    RED = "red"
    OFF = "off"


class Inner(Struct, frozen=True, kw_only=True, rename="camel"):
    top_speed: Annotated[float, Meta(extra={"unit": "number", "low": 1, "high": 4})] = 2.0
    is_open: bool = False


class Outer(Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    inner: Inner = Inner(top_speed=3.0)
    colour: Colour | None = None
    count: int = 0
    marks: tuple[int, ...] = ()
    table: dict[str, float | None] = {}


def read(text, grammar=None):
    reader = Reader("f.yaml", grammar or Grammar())
    value = reader.struct(parse(text, "f.yaml"), Outer, "")
    reader.finish()
    return value


def problems(text, grammar=None):
    with pytest.raises(DocumentError) as caught:
        read(text, grammar)
    return [str(problem) for problem in caught.value.problems]


def test_values_take_their_types():
    text = "{name: n, inner: {topSpeed: 4, isOpen: true}, colour: off, count: -3, marks: [1, 2], table: {a: 0.5, b: null}}"
    assert read(text) == Outer(
        name="n", inner=Inner(top_speed=4.0, is_open=True), colour=Colour.OFF, count=-3, marks=(1, 2), table={"a": 0.5, "b": None}
    )


def test_what_is_left_out_keeps_the_default_of_the_whole_not_of_the_part():
    assert read("{name: n, inner: {isOpen: true}}") == Outer(name="n", inner=Inner(top_speed=3.0, is_open=True))


def test_an_empty_mapping_list_or_table_may_be_left_blank():
    assert read("name: n\ninner:\nmarks:\ntable:\n") == Outer(name="n")


def test_all_problems_come_at_once_in_the_order_of_the_lines():
    text = "inner:\n  topSpeed: 9\n  isOpen: yes\n  topSped: 1\ncolour: redd\ncount: 1.5\nmarks: [1, x]\ntable: {a: b}\n"
    assert problems(text) == [
        "f.yaml:1: name: is required: a text",
        "f.yaml:2: inner.topSpeed: 9 is not allowed; a number from 1 to 4",
        "f.yaml:3: inner.isOpen: yes is not allowed; true or false",
        "f.yaml:4: inner.topSped: unknown key (did you mean topSpeed?)",
        "f.yaml:5: colour: redd is not allowed; one of red, off (did you mean red?)",
        "f.yaml:6: count: 1.5 is not allowed; a whole number",
        "f.yaml:7: marks[1]: x is not allowed; a whole number",
        "f.yaml:8: table.a: b is not allowed; a number",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: 12", 'name: 12 is not allowed; a text (write "12" in quotes)'),
        ("name: no", 'name: no is not allowed; a text (write "no" in quotes)'),
        ("name:", "name: null is not allowed; a text"),
        ("name: [a]", "name: a list is not allowed; a text"),
        ("{name: n, count: '1'}", 'count: "1" is not allowed; a whole number (without quotes)'),
        ("{name: n, inner: {topSpeed: null}}", "inner.topSpeed: null is not allowed; a number from 1 to 4"),
        ("{name: n, inner: {isOpen: 'true'}}", 'inner.isOpen: "true" is not allowed; true or false (without quotes)'),
        ("{name: n, inner: 3}", "inner: 3 is not allowed; a mapping with keys such as topSpeed, isOpen"),
        ("{name: n, marks: 3}", "marks: 3 is not allowed; a list"),
        ("{name: n, table: 3}", "table: 3 is not allowed; a mapping"),
        ("{name: n, zzz: 3}", "zzz: unknown key (known are name, inner, colour, count, marks, table)"),
        ("{name: n, inner: {topSpeed: .nan}}", "inner.topSpeed: .nan is not allowed; a number from 1 to 4"),
        ("{name: n, table: {a: 1e999}}", "table.a: 1e999 is not allowed; a number (the number is too large)"),
        ("- 1", "a list is not allowed; a mapping with keys such as name, inner, colour, count"),
    ],
)
def test_a_problem_says_what_is_allowed(text, message):
    assert problems(text) == [f"f.yaml:1: {message}"]


def test_a_rule_from_a_table_holds_where_the_type_has_none():
    grammar = Grammar(rules={Outer: {"marks": Rule(low=0), "count": Rule(required=True)}})
    assert problems("{name: n, marks: [-1]}", grammar) == [
        "f.yaml:1: count: is required: a whole number",
        "f.yaml:1: marks[0]: -1 is not allowed; a whole number, 0 or more",
    ]


def test_a_check_sees_the_value_with_its_defaults():
    seen = []
    read(
        "name: n\ninner: {isOpen: true}\n",
        Grammar(checks={Inner: lambda reader, value, path: seen.append((value, path, reader.lines[path]))}),
    )
    assert seen == [(Inner(top_speed=3.0, is_open=True), "inner", 2)]


def test_a_hostile_value_is_shown_escaped_and_cut():
    (message,) = problems('{name: n, count: "\\e]0;' + "x" * 500 + '"}')
    assert message == 'f.yaml:1: count: "\\x1b]0;' + "x" * 53 + '..." is not allowed; a whole number (without quotes)'


def test_endless_problems_are_counted_not_listed():
    messages = problems("name: n\n" + "".join(f"k{number}: 1\n" for number in range(MOST + 7)))
    assert len(messages) == MOST + 1
    assert messages[-1] == f"f.yaml:{MOST + 1}: 7 further problems not shown"


def test_the_nearest_word_ignores_case_and_separators():
    known = ["burstRatio", "CPUEvict"]
    assert [nearest(word, known) for word in ("burst_ratio", "cpuevict", "brustRatio", "zebra")] == [
        "burstRatio",
        "CPUEvict",
        "burstRatio",
        None,
    ]
