"""Which nodes a part of the configuration is for: the selectors of `nodeStrategies` (specification, section 6).

In: a selector as people write it for Kubernetes, and a node's labels. Out: whether it selects the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated

from msgspec import Meta, Struct

STRATEGIES = "nodeStrategies"
MOST_STRATEGIES = 100  # each costs milliseconds whenever the file is read, and no cycle runs meanwhile
GROUP_KEYS = ("name", "nodeSelector")


class Operator(Enum):
    """What an expression says of a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Expression(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A condition on one label; NotIn holds as well for a node without the label."""

    key: Annotated[str, Meta(description="name of the label")]
    operator: Annotated[Operator, Meta(description="In and NotIn with values, Exists and DoesNotExist without")]
    values: Annotated[tuple[str, ...], Meta(description="values of the label")] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels meets it."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels

    @property
    def takes_values(self) -> bool:
        """Whether it compares with values."""
        return self.operator in (Operator.IN, Operator.NOT_IN)


class NodeSelector(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """All of its conditions must hold; an empty one selects every node."""

    match_labels: Annotated[dict[str, str], Meta(description="labels that the node must have, with these values")] = {}
    match_expressions: Annotated[tuple[Expression, ...], Meta(description="conditions on labels")] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether it selects a node with these labels."""
        return self.match_labels.items() <= labels.items() and all(each.holds(labels) for each in self.match_expressions)


class NodeGroup(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Settings of their own for some nodes: any key of the file beside the name and the selector. Of several that select a node, the later
    one has the last word on each value."""

    node_selector: NodeSelector
    name: Annotated[str, Meta(description="for people; `config show` names it")] = ""
