"""The decision matrix (specification, section 4)."""

from __future__ import annotations

from qosmanager.model.assessment import Matrix, MatrixInputs
from qosmanager.model.census import is_above
from qosmanager.model.qos import Level, MatrixAction


def decision_matrix(inputs: MatrixInputs) -> Matrix:
    """Return the first row that matches. What was not measured comes in as 0 and matches nothing."""
    cpu = inputs.cpu_percent
    if is_above(cpu, 80) and is_above(inputs.memory_percent, 85) and inputs.latency_rising:
        return Matrix(Level.CRITICAL, MatrixAction.EVICT_BE_IMMEDIATELY, inputs)
    if is_above(cpu, 70) and is_above(inputs.cpu_trend, 5):
        return Matrix(Level.HIGH, MatrixAction.THROTTLE_BE_AGGRESSIVE, inputs)
    if is_above(cpu, 60):
        return Matrix(Level.MEDIUM, MatrixAction.THROTTLE_BE_MODERATE, inputs)
    return Matrix(Level.LOW, MatrixAction.RELAX_BE_LIMIT, inputs)
