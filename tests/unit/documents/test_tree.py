import pytest

from qosmanager.documents.problem import DocumentError
from qosmanager.documents.tree import DEEPEST, LARGEST, Mapping, Scalar, Sequence, foreign, parse


def refused(text, **place):
    with pytest.raises(DocumentError) as caught:
        parse(text, "f.yaml", **place)
    (problem,) = caught.value.problems
    return str(problem)


def test_every_value_knows_its_line():
    tree = parse("a: 1\nb:\n- x\n- y\n", "f.yaml")
    assert isinstance(tree, Mapping)
    assert [(key, entry.line) for key, entry in tree.entries.items()] == [("a", 1), ("b", 2)]
    items = tree.entries["b"].value
    assert isinstance(items, Sequence)
    assert [item.line for item in items.items] == [3, 4]


def test_json_with_tabs_is_read_like_yaml():
    tree = parse('{\n\t"a": [1,\n\t\t"x"]\n}', "f.json")
    assert isinstance(tree, Mapping)
    assert tree.entries["a"].value == Sequence((Scalar("1", 2), Scalar("x", 3, '"')), 2)


def test_a_plain_word_stays_the_word_it_is():
    assert parse("off", "f.yaml") == Scalar("off", 1)


def test_an_empty_text_is_null():
    for text in ("", "---\n", "# only a comment\n"):
        node = parse(text, "f.yaml")
        assert isinstance(node, Scalar)
        assert node.is_null


def test_a_quoted_null_is_a_text():
    assert not Scalar("null", 1, '"').is_null


def test_a_key_given_twice_is_refused_at_its_second_line():
    assert refused("a: 1\nb: 2\na: 3\n") == "f.yaml:3: the key a was already given in line 1"


def test_a_second_document_is_refused():
    assert refused("a: 1\n---\nb: 2\n") == "f.yaml:2: a second document starts here; one file holds one"


def test_an_alias_is_refused_before_it_can_multiply():
    bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
    assert refused(bomb) == "f.yaml:2: aliases are not read; write the value out"


def test_a_tag_is_refused():
    assert refused("a: !!python/object/apply:os.system [x]\n").startswith(
        "f.yaml:1: tags (tag:yaml.org,2002:python/object/apply:os.system)"
    )


def test_nesting_ends_at_a_bound():
    deepest = "[" * DEEPEST + "]" * DEEPEST
    assert isinstance(parse(deepest, "f.yaml"), Sequence)
    assert refused(f"[{deepest}]") == f"f.yaml:1: is nested deeper than {DEEPEST} levels"


def test_size_ends_at_a_bound():
    assert refused("#" * (LARGEST + 1)) == f"f.yaml:1: is larger than {LARGEST} bytes"


def test_a_list_as_a_key_is_refused():
    assert refused("? [a]\n: 1\n") == "f.yaml:1: a key is a single word, not a list or a mapping"


def test_a_syntax_error_names_its_line():
    assert refused("a: 1\nb: [1,\n").startswith("f.yaml:3: cannot be read as YAML or JSON: ")


def test_a_syntax_error_is_told_to_its_end():
    why = "while scanning for the next token: found character that cannot start any token"
    assert refused("a: `b`\n") == f"f.yaml:1: cannot be read as YAML or JSON: {why}"


def test_a_tab_that_indents_is_named():
    why = "while scanning for the next token: found character that cannot start any token"
    assert refused("a:\n\tb: 1\n") == f"f.yaml:2: cannot be read as YAML or JSON: {why} (a tab indents it; YAML is indented by spaces)"


def test_a_control_character_is_shown_escaped():
    message = refused('a: 1\n\'\\e[31m\': 2\n"\\e[31m": 3\n"\\e[31m": 4\n')
    assert message == "f.yaml:4: the key \\x1b[31m was already given in line 3"


def test_lines_count_from_where_an_inner_text_stands():
    assert refused("a: 1\na: 2\n", first_line=11) == "f.yaml:12: the key a was already given in line 11"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("since: 2026-99-99", "a time that never was"),
        ("count: " + "9" * 5000, "too large a number"),
        ("[" * 10_000, r"is not YAML \(line 1\)"),
        ("a: secret\n- b", r"^is not YAML \(line 2\)$"),
        ("a" * (LARGEST + 1), "is larger than 2097152 bytes"),
    ],
)
def test_what_others_wrote_is_refused_in_words_that_show_nothing_of_it(text, said):
    with pytest.raises(ValueError, match=said) as refused:
        foreign(text)
    assert "secret" not in str(refused.value)
