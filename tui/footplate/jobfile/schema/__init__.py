"""The shapes of Azure ML files, by kind. Source: the schemas of azure-ai-ml 1.35 and Azure's YAML reference pages."""

from footplate.jobfile.schema.compute import COMPUTE
from footplate.jobfile.schema.endpoints import DEPLOYMENT, ENDPOINT
from footplate.jobfile.schema.jobs import COMMAND, SWEEP
from footplate.jobfile.schema.pipelines import COMPONENT, PIPELINE

SHAPES = {
    "command": COMMAND,
    "sweep": SWEEP,
    "pipeline": PIPELINE,
    "component": COMPONENT,
    "endpoint": ENDPOINT,
    "deployment": DEPLOYMENT,
    "compute": COMPUTE,
}
"""The kinds whose every key is known."""

__all__ = ["SHAPES"]
