"""Jobs with children: the trials of sweeps, the steps of pipelines."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING

from tests.wire.state import Body, State, new_id

if TYPE_CHECKING:
    from tests.wire.life import Going, Life


class Sweeps:
    """Starts trials with values drawn from the search space, so many at a time."""

    def __init__(self, life: Life, state: State) -> None:
        """For the jobs of a server."""
        self._life, self._state = life, state

    def start(self, name: str, going: Going) -> None:
        """As many trials as may run at once."""
        limits = self._state.jobs[name]["properties"]["limits"]
        going.trials_left = int(limits["maxTotalTrials"] or 4)
        self._state.runs[name]["startTimeUtc"] = self._state.stamp()
        self._life.append_log(name, "azureml-logs/hyperdrive.txt", b"[GENERATOR][INFO]Trying to sample jobs\n")
        for _ in range(int(limits["maxConcurrentTrials"] or going.trials_left)):
            self._life.after(name, going.plan.starting, lambda: self._start_trial(name, going))

    def _start_trial(self, name: str, going: Going) -> None:
        if not going.trials_left:
            return
        going.trials_left -= 1
        body = self._state.jobs[name]
        inner = body["properties"]
        child = f"{name}_{len(self._state.children.get(name, []))}"
        drawn = draw(inner["searchSpace"], random.Random(child))
        command = re.sub(
            r"\$\{\{search_space\.(\w+)\}\}",
            lambda found: str(drawn.get(found[1], found[0])),
            inner["trial"]["command"],
        )
        parameters = json.dumps(drawn)
        asked = {
            "jobType": "Command",
            "command": command,
            "computeId": inner["computeId"],
            "experimentName": inner["experimentName"],
            "displayName": f"{inner['displayName']}_{child.rsplit('_', 1)[-1]}",
            "inputs": inner["inputs"],
            "tags": {"hyperparameters": parameters, **{key: str(value) for key, value in drawn.items()}},
            "properties": {"azureml.runsource": "azureml.scriptrun", "ParentRunId": name, "azureml.git.dirty": "False"},
            **{key: value for key, value in inner["trial"].items() if key != "command"},
        }
        self._life.submit(child, {"properties": asked}, parent=name)
        tags = inner["tags"]
        tags[child] = parameters
        tags["_aml_system_samples_generated_count"] = str(len(self._state.children[name]))
        tags["_aml_system_all_jobs_generated"] = str(not going.trials_left).lower()

    def ended(self, name: str, child: str) -> None:
        """After a trial comes the next one; after the last one the sweep ends, with its best trial named."""
        going = self._life.going[name]
        inner = self._state.jobs[name]["properties"]
        metric, goal = inner["objective"]["primaryMetric"], inner["objective"]["goal"]
        children = self._state.children[name]
        scores = {
            one: (max if goal == "Maximize" else min)(point.value for point in points)
            for one in children
            if (points := self._state.metrics.get(one, {}).get(metric))
        }
        if scores:
            best = (max if goal == "Maximize" else min)(scores, key=lambda one: scores[one])
            inner["properties"] |= {
                "best_child_run_id": best,
                "score": str(scores[best]),
                "best_metric_status": "Succeeded",
                "best_data_container_id": f"dcid.{best}",
            }
        if going.trials_left:
            self._start_trial(name, going)
        elif all(one not in self._life.going for one in children):
            done = any(self._state.jobs[one]["properties"]["status"] == "Completed" for one in children)
            self._life.end(name, "Completed" if done else "Failed")


class Pipelines:
    """Starts the steps whose inputs are made."""

    def __init__(self, life: Life, state: State) -> None:
        """For the jobs of a server."""
        self._life, self._state = life, state

    def start(self, name: str, going: Going) -> None:
        """The steps that need nothing of others."""
        inner = self._state.jobs[name]["properties"]
        for step, asked in inner["jobs"].items():
            going.steps_left[step] = set(re.findall(r"parent\.jobs\.(\w+)\.outputs", json.dumps(asked)))
        self._life.append_log(name, "logs/azureml/executionlogs.txt", b"Dispatching pipeline steps\n")

        def running() -> None:
            self._life.set_status(name, "Running")
            self._start_steps(name, going)

        self._life.after(name, going.plan.starting, running)

    def _start_steps(self, name: str, going: Going) -> None:
        inner = self._state.jobs[name]["properties"]
        for step in [step for step, needs in going.steps_left.items() if not needs]:
            del going.steps_left[step]
            asked = inner["jobs"][step]
            child = new_id()
            given = {
                "jobType": "Command",
                "command": asked.get("command") or "python step.py",
                "environmentId": asked.get("environmentId") or "azureml:AzureML-step:1",
                "computeId": asked.get("computeId") or inner["computeId"],
                "experimentName": inner["experimentName"],
                "displayName": step,
                "componentId": asked.get("componentId"),
                "distribution": asked.get("distribution"),
                "resources": asked.get("resources"),
                "properties": {
                    "azureml.runsource": "azureml.StepRun",
                    "azureml.pipelinerunid": name,
                    "azureml.nodeid": new_id()[:8],
                    "azureml.moduleName": step,
                    "StepType": "PythonScriptStep",
                },
            }
            self._life.submit(child, {"properties": given}, parent=name)

    def ended(self, name: str, child: str) -> None:
        """After a step come those that waited for it; after a failed one none."""
        going = self._life.going[name]
        step = self._state.jobs[child]["properties"]["displayName"]
        if self._state.jobs[child]["properties"]["status"] != "Completed":
            going.steps_left.clear()
        for needs in going.steps_left.values():
            needs.discard(step)
        self._start_steps(name, going)
        children = self._state.children.get(name, [])
        if not going.steps_left and all(one not in self._life.going for one in children):
            well = all(self._state.jobs[one]["properties"]["status"] == "Completed" for one in children)
            self._life.end(name, "Completed" if well else "Failed")


def draw(space: Body, chance: random.Random) -> Body:
    """Values out of a search space."""
    drawn: Body = {}
    for name, (kind, numbers) in space.items():
        if kind == "choice":
            drawn[name] = chance.choice(numbers[0])
        elif kind == "randint":
            drawn[name] = chance.randrange(int(numbers[0]))
        elif kind in ("normal", "qnormal", "lognormal", "qlognormal"):
            drawn[name] = chance.normalvariate(*numbers[:2])
        elif kind in ("loguniform", "qloguniform"):
            drawn[name] = 2.718281828459045 ** chance.uniform(*numbers[:2])
        else:
            drawn[name] = chance.uniform(*numbers[:2])
    return drawn
