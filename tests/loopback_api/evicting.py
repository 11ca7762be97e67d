"""How pods end on a loopback API server: evictions with budgets and preconditions, deletions with grace."""

from __future__ import annotations

import time
from collections.abc import Callable

from loopback_api.store import Object, Refusal, Store, timestamp

_UNGUARDED = ("Succeeded", "Failed", "Pending")  # phases in which no budget is asked


class PodEnds:
    """Evicts and deletes. A pod with grace stays with its deletionTimestamp until that is over, as if kubelet then ended it, or until
    `finish` says that it has; with `by_itself` False only then, or when somebody deletes it without grace, as kubelet does. `now` is wall
    time in seconds."""

    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now
        self.by_itself = True
        self._due: dict[tuple[str, str], float] = {}

    def evict(self, namespace: str, name: str, eviction: Object) -> Object:
        """Return a status, which is answered with 201 as the API server does it, also where it is the failure that two budgets are;
        Refusal for any other."""
        if eviction.get("metadata", {}).get("name") != name:
            raise Refusal(400, "BadRequest", "name in URL does not match name in Eviction object")
        with self._store.changed:
            pod = self._store.get("pods", namespace, name)
            if pod["status"].get("phase") not in _UNGUARDED and "deletionTimestamp" not in pod["metadata"]:
                guarding = self._guarding(pod)
                if len(guarding) > 1:
                    message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
                    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": 500}
                self._take_from(guarding)
            self.delete(namespace, name, eviction.get("deleteOptions") or {})
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    def delete(self, namespace: str, name: str, options: Object) -> Object:
        with self._store.changed:
            pod = self._store.get("pods", namespace, name)
            expected, uid = (options.get("preconditions") or {}).get("uid"), pod["metadata"]["uid"]
            if expected not in (None, uid):
                why = f"Precondition failed: UID in precondition: {expected}, UID in object meta: {uid}"
                raise Refusal(409, "Conflict", f'Operation cannot be fulfilled on pods "{name}": {why}')
            grace = options.get("gracePeriodSeconds")
            grace = pod["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
            if grace == 0:
                return self.finish(namespace, name)
            due = self._now() + grace
            pod["metadata"] |= {"deletionTimestamp": timestamp(due), "deletionGracePeriodSeconds": grace}
            self._due[namespace, name] = min(due, self._due.get((namespace, name), due))
            return self._store.replace("pods", pod)

    def finish(self, namespace: str, name: str) -> Object:
        """The pod's processes have ended: it is gone."""
        self._due.pop((namespace, name), None)
        return self._store.delete("pods", namespace, name)

    def look(self) -> None:
        """End the pods whose grace is over."""
        if not self.by_itself:
            return
        with self._store.changed:
            for namespace, name in [key for key, due in self._due.items() if due <= self._now()]:
                self.finish(namespace, name)

    def _guarding(self, pod: Object) -> list[Object]:
        labels = pod["metadata"].get("labels", {})
        budgets, _ = self._store.list("poddisruptionbudgets", pod["metadata"]["namespace"])
        return [each for each in budgets if each["spec"]["selector"]["matchLabels"].items() <= labels.items()]

    def _take_from(self, guarding: list[Object]) -> None:
        if not guarding:
            return
        budget, state = guarding[0], guarding[0]["status"]
        name = budget["metadata"]["name"]
        if state["observedGeneration"] < budget["metadata"]["generation"]:
            raise _exhausted(f"The disruption budget {name} is still being processed by the server.", retry_after=10)
        if state["disruptionsAllowed"] == 0:
            has = f"needs {state['desiredHealthy']} healthy pods and has {state['currentHealthy']} currently"
            raise _exhausted(f"The disruption budget {name} {has}", retry_after=0)
        state["disruptionsAllowed"] -= 1
        self._store.replace("poddisruptionbudgets", budget)


def _exhausted(cause: str, retry_after: int) -> Refusal:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return Refusal(429, "TooManyRequests", message, retry_after=retry_after, causes=({"reason": "DisruptionBudget", "message": cause},))
