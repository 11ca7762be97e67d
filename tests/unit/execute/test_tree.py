"""Groups below a group."""

from qosmanager.execute.tree import below


class Tree:
    """Children of groups, as a kernel tells them."""

    def __init__(self, children: dict[str, list[str]]) -> None:
        self._children = children

    def children(self, controller: str, group: str) -> list[str]:
        assert controller == "cpu"
        if group not in self._children:
            raise FileNotFoundError(group)
        return self._children[group]


def test_parents_come_before_what_is_below_them_and_what_vanished_is_left_out():
    tree = Tree({"be": ["a", "b"], "be/a": ["c"], "be/b": []})
    found = list(below(tree, "cpu", "be"))
    assert sorted(found) == ["be/a", "be/a/c", "be/b"]
    assert found.index("be/a") < found.index("be/a/c")
    assert list(below(Tree({"": ["a"]}), "cpu", "")) == ["a"]


def test_a_pod_that_makes_groups_a_thousand_deep_stops_nobody():
    # 4096 bytes of path are room for 2000 levels.
    levels = ["be" + "/d" * depth for depth in range(2000)]
    tree = Tree({level: ["d"] for level in levels[:-1]} | {levels[-1]: []})
    assert list(below(tree, "cpu", "be")) == levels[1:]
