"""How fast the simulator is: a node of 20 pods (8 services, 12 batch) by day and night, cycles of one second, on one core.

    python benchmarks/simulate.py --cycles 86400

Prints a Markdown table: cycles a second and seconds for a whole day, with the agent and without it. Deterministic but for the time.
"""

from __future__ import annotations

import argparse
import time

from qosmanager.config.settings import Settings
from qosmanager.simulate.load import Loaded, load_scenario
from qosmanager.simulate.run import managed, unmanaged
from qosmanager.simulate.tally import Tally

DAY = 86400
NODE = """
about: 8 services by day and night, 12 batch pods.
duration: {seconds}s
node: {{cpus: 32, memory: 128Gi, system_cpu: 0.5}}
workloads:
- name: api
  qos: LS
  count: 8
  requests: {{cpu: 2, memory: 4Gi}}
  limits: {{cpu: 4}}
  slo: {{p99: 50ms}}
  cpu:
    daily: [{{hour: 0, value: 0.5}}, {{hour: 8, value: 1.5}}, {{hour: 11, value: 2.2}}, {{hour: 18, value: 1.2}}, {{hour: 22, value: 0.6}}]
  memory: {{start: 2Gi}}
  service: {{time: 5ms}}
- {{name: batch, qos: BE, count: 12, cpu: {{constant: 2}}, memory: {{start: 1Gi}}}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=20_000, help="how many; a day has 86400, from midnight on")
    arguments = parser.parse_args()
    # A day in fewer cycles is that day's beginning: night, when the node has least to do for its services, and BE most.
    loaded = Loaded(name="benchmark", scenario=load_scenario(NODE.format(seconds=arguments.cycles), "benchmark"))
    print("| | cycles | cycles a second | seconds for a day |")
    print("| --- | --- | --- | --- |")
    for name, run in (("with the agent", managed), ("without it", unmanaged)):
        settings = Settings()
        tally = Tally(loaded, settings)
        began = time.process_time()
        for cycle in run(loaded, settings, 1):
            tally.add(cycle)
        spent = time.process_time() - began
        print(f"| {name} | {arguments.cycles} | {arguments.cycles / spent:.0f} | {spent / arguments.cycles * DAY:.0f} |", flush=True)


if __name__ == "__main__":
    main()
