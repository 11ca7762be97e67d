"""Did it work? Receipts -> the state that is really in force; later snapshots -> outcomes (specification, section 10). Pure."""

from qosmanager.verify.observe import observe
from qosmanager.verify.settle import settle

__all__ = ["observe", "settle"]
