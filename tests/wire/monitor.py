"""Azure Monitor: the figures of endpoints and deployments, a point a minute, some minutes late."""

from __future__ import annotations

from datetime import timedelta

from tests.wire.endpoints import EP
from tests.wire.http import Call, Reply, Routes
from tests.wire.state import Body

routes = Routes()


@routes.on("GET", EP + r"(?:/deployments/(?P<name>[^/]+))?/providers/Microsoft\.Insights/metrics")
def monitor(call: Call) -> Reply:
    """Azure Monitor's figures: a point a minute, as late as the real ones are."""
    names = [name for name in call.query.get("metricnames", "RequestsPerMinute").split(",") if name]
    end = call.wire.now.replace(second=0, microsecond=0) - timedelta(minutes=3)
    moments = [end - timedelta(minutes=minute) for minute in range(30, -1, -1)]
    scale = {
        "RequestsPerMinute": 60,
        "RequestLatency": 40,
        "CpuUtilizationPercentage": 35,
        "GpuUtilizationPercentage": 0,
    }

    def series(name: str) -> Body:
        data = [
            {"timeStamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"), "average": scale.get(name, 10) + moment.minute % 7}
            for moment in moments
        ]
        return {
            "id": f"{call.path}/{name}",
            "type": "Microsoft.Insights/metrics",
            "name": {"value": name, "localizedValue": name},
            "unit": "Count",
            "timeseries": [{"metadatavalues": [], "data": data}],
            "errorCode": "Success",
        }

    span = f"{moments[0]:%Y-%m-%dT%H:%M:%SZ}/{moments[-1]:%Y-%m-%dT%H:%M:%SZ}"
    value = [series(name) for name in names]
    return Reply(
        body={
            "cost": 0,
            "timespan": span,
            "interval": "PT1M",
            "value": value,
            "resourceregion": call.wire.state.location,
        }
    )
