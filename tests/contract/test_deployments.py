"""What every workspace promises about endpoints: deployments, traffic, keys, scale, figures; on this machine and on Azure."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from tests import served
from tests.contract.grounds import ENVIRONMENT, until

from footplate.jobfile import read
from footplate.operations import deploy as operations
from footplate.operations import traffic as shifting
from footplate.workspace import Conflict, Invalid, NotFound

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.filterwarnings("ignore")]  # the SDK's, beside ours

PNG = {"Content-Type": "image/png"}
SCORE = """
import json, os
def init(): print("ready with", sorted(os.listdir(os.environ["AZUREML_MODEL_DIR"])))
def run(data): return json.dumps({"label": "wren", "probability": 0.75})
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def birds(ground):
    """The endpoint `birds` with `blue` (the first) and `green` (without traffic), both serving; gives its name."""
    workspace = ground.workspace
    served.write_model(ground.folder / "colours")
    for _ in range(2):
        await workspace.register("colours", ground.folder / "colours")
    assert (await workspace.create_endpoint("birds", "which bird")).deployments == ()
    first = await workspace.deploy("birds", "blue", "colours:1")
    assert (first.name, first.endpoint, first.model) == ("blue", "birds", "colours:1")
    await operations.wait(workspace, "birds", "blue")
    await until(lambda: workspace.endpoint("birds"), lambda found: found.traffic.get("blue") == 100)
    await operations.deploy(workspace, "colours:2", "birds", "green")
    return "birds"


async def share(ground, **traffic):
    """Set the traffic, and wait until the endpoint is at rest."""
    await ground.workspace.set_traffic("birds", traffic)
    return await operations.wait_endpoint(ground.workspace, "birds")


def given(shares):
    return {name: share for name, share in shares.items() if share}


async def test_the_first_deployment_takes_all_traffic_and_the_next_none(ground, birds):
    endpoint = await ground.workspace.endpoint(birds)
    assert (endpoint.name, endpoint.state, endpoint.description, endpoint.auth_mode) == (
        "birds",
        "Succeeded",
        "which bird",
        "key",
    )
    assert given(endpoint.traffic) == {"blue": 100}
    assert [(one.name, one.model, one.state) for one in endpoint.deployments] == [
        ("blue", "colours:1", "Succeeded"),
        ("green", "colours:2", "Succeeded"),
    ]
    assert endpoint.scoring_uri.endswith("/score")
    assert endpoint in await ground.workspace.endpoints()
    keys = await ground.workspace.keys(birds)
    shown = json.dumps(endpoint.document(), allow_nan=False)
    assert keys.primary not in shown
    assert keys.secondary not in shown


async def test_deploying_the_same_again_changes_nothing_and_another_model_is_refused(ground, birds):
    before = await ground.workspace.endpoint(birds)
    assert (await ground.workspace.deploy(birds, "blue", "colours:1")).model == "colours:1"
    assert await ground.workspace.endpoint(birds) == before
    with pytest.raises(Conflict):
        await ground.workspace.deploy(birds, "blue", "colours:2")
    with pytest.raises(NotFound):
        await ground.workspace.deploy(birds, "red", "colours:9")
    assert await ground.workspace.endpoint(birds) == before


async def test_a_request_goes_by_traffic_or_to_the_deployment_it_names(ground, birds):
    await share(ground, blue=100, green=0)
    answer = await ground.workspace.invoke(birds, served.picture("red"), PNG)
    assert (answer.status, answer.deployment) == (200, "blue")
    assert answer.seconds > 0
    answer = await ground.workspace.invoke(birds, served.picture("red"), PNG, "green")
    assert (answer.status, answer.deployment) == (200, "green")
    assert (await ground.workspace.invoke(birds, served.picture("red"), PNG, "nobody")).status == 404


async def test_traffic_is_shared_out(ground, birds):
    await share(ground, blue=100)
    after = await share(ground, blue=50, green=50)
    assert given(after.traffic) == {"blue": 50, "green": 50}
    answered = set()
    for _ in range(200):
        answered.add((await ground.workspace.invoke(birds, served.picture("red"), PNG)).deployment)
        if len(answered) == 2:
            break
    assert answered == {"blue", "green"}
    after = await share(ground, green=100)
    assert given(after.traffic) == {"green": 100}
    assert (await ground.workspace.invoke(birds, served.picture("red"), PNG)).deployment == "green"


async def test_no_traffic_at_all_is_allowed_and_answers_404(ground, birds):
    assert given((await share(ground, blue=0, green=0)).traffic) == {}
    assert (await ground.workspace.invoke(birds, served.picture("red"), PNG)).status == 404
    await share(ground, blue=100)


@pytest.mark.parametrize(
    "traffic",
    [{"blue": 50}, {"blue": 60, "green": 60}, {"blue": 110, "green": -10}, {"bleu": 100}, {"red": 0, "blue": 100}],
)
async def test_what_is_no_traffic_is_refused_and_changes_nothing(ground, birds, traffic):
    before = await ground.workspace.endpoint(birds)
    with pytest.raises(Invalid) as refused:
        await ground.workspace.set_traffic(birds, traffic)
    assert refused.value.sentence.endswith(".")
    assert await ground.workspace.endpoint(birds) == before


async def test_traffic_that_was_changed_meanwhile_is_a_conflict_that_tells_both(ground, birds):
    await share(ground, blue=90, green=10)
    with pytest.raises(Conflict) as refused:
        await ground.workspace.set_traffic(birds, {"green": 100}, {"blue": 100})
    assert "blue 100 %" in refused.value.sentence
    assert "blue 90 %, green 10 %" in refused.value.sentence
    assert given((await ground.workspace.endpoint(birds)).traffic) == {"blue": 90, "green": 10}
    await ground.workspace.set_traffic(birds, {"blue": 100}, {"blue": 90, "green": 10})
    assert given((await operations.wait_endpoint(ground.workspace, birds)).traffic) == {"blue": 100}


async def test_requests_are_mirrored_to_one_deployment_without_traffic(ground, birds):
    await share(ground, blue=100)
    await ground.workspace.set_mirror(birds, {"green": 50})
    after = await operations.wait_endpoint(ground.workspace, birds)
    assert (given(after.mirror), given(after.traffic)) == ({"green": 50}, {"blue": 100})
    before = [await ground.scored(birds, name) for name in ("blue", "green")]
    for _ in range(40):
        assert (await ground.workspace.invoke(birds, served.picture("red"), PNG)).deployment == "blue"
    await ground.workspace.invoke(
        birds, served.picture("red"), PNG, "blue"
    )  # by its name: is mirrored nowhere on Azure
    blue = await until(lambda: ground.scored(birds, "blue"), lambda count: count >= before[0] + 41)
    copies = await until(lambda: ground.scored(birds, "green"), lambda count: count > before[1])
    assert (blue - before[0], copies - before[1] < 40) == (41, True)
    for mirror in ({"green": 51}, {"blue": 10}, {"red": 10}, {"green": 10, "blue": 10}):
        with pytest.raises(Invalid):
            await ground.workspace.set_mirror(birds, mirror)
    with pytest.raises(Invalid):
        await ground.workspace.set_traffic(birds, {"blue": 50, "green": 50})
    assert given((await ground.workspace.endpoint(birds)).mirror) == {"green": 50}
    _, after = await shifting.shift(ground.workspace, birds, {"green": 100}, {"blue": 10})
    after = await operations.wait_endpoint(ground.workspace, birds)
    assert (given(after.mirror), given(after.traffic)) == ({"blue": 10}, {"green": 100})
    await shifting.shift(ground.workspace, birds, {"blue": 100}, {})
    after = await operations.wait_endpoint(ground.workspace, birds)
    assert (given(after.mirror), given(after.traffic)) == ({}, {"blue": 100})


async def test_a_refused_shift_leaves_both_shares_as_they_were(ground, birds):
    await share(ground, blue=100)
    await shifting.shift(ground.workspace, birds, mirror={"green": 10})
    before = await operations.wait_endpoint(ground.workspace, birds)
    for traffic, mirror, seen in (
        ({"green": 90}, {}, None),
        ({"green": 100}, {"green": 10}, None),
        ({"green": 100}, {}, {"blue": 50, "green": 50}),
    ):
        with pytest.raises((Invalid, Conflict)):
            await shifting.shift(ground.workspace, birds, traffic, mirror, seen)
    assert await ground.workspace.endpoint(birds) == before
    await shifting.shift(ground.workspace, birds, mirror={})
    await operations.wait_endpoint(ground.workspace, birds)


async def test_a_key_is_made_anew_and_the_other_stays(ground, birds):
    before = await ground.workspace.keys(birds)
    assert before.primary != before.secondary
    after = await ground.workspace.regenerate_key(birds, "primary")
    assert after.primary not in (before.primary, before.secondary)
    assert after.secondary == before.secondary
    assert await ground.workspace.keys(birds) == after
    assert after.primary not in repr(after)
    assert (await ground.workspace.invoke(birds, served.picture("red"), PNG)).status == 200
    after = await ground.workspace.regenerate_key(birds, "secondary")
    assert after.secondary != before.secondary
    assert (await ground.workspace.invoke(birds, served.picture("red"), PNG)).status == 200
    with pytest.raises(Invalid):
        await ground.workspace.regenerate_key(birds, "tertiary")
    assert await ground.workspace.keys(birds) == after


async def test_a_deployment_is_scaled(ground, birds):
    for instances in (2, 1):
        scaled = await ground.workspace.scale(birds, "green", instances)
        assert (scaled.name, scaled.instances) == ("green", instances)
        assert (await operations.wait(ground.workspace, birds, "green")).instances == instances
    assert (await ground.workspace.invoke(birds, served.picture("red"), PNG, "green")).status == 200
    for wrong in (0, -1):
        with pytest.raises(Invalid):
            await ground.workspace.scale(birds, "green", wrong)


async def test_figures_are_told_for_each_deployment(ground, birds):
    await ground.workspace.invoke(birds, served.picture("red"), PNG)
    found = await until(lambda: ground.workspace.monitor(birds), lambda found: any(one.series for one in found))
    assert {one.deployment for one in found} <= {"blue", "green"}
    latest = datetime.now(UTC) + timedelta(days=2)  # the server's clock runs on
    for one in found:
        for points in one.series.values():
            moments = [moment for moment, _ in points]
            assert moments == sorted(moments)
            assert all(moment <= latest for moment in moments)


async def test_both_containers_have_a_log(ground, birds):
    whole = await ground.workspace.deployment_log(birds, "blue", 10_000)
    assert len(whole.strip().splitlines()) >= 2
    assert (await ground.workspace.deployment_log(birds, "blue", 1)).strip() == whole.strip().splitlines()[-1]
    assert (await ground.workspace.deployment_log(birds, "blue", 100, "storage-initializer")).strip()
    with pytest.raises(Invalid):
        await ground.workspace.deployment_log(birds, "blue", 10, "other")


async def test_what_is_not_there_is_not_found(ground, birds):
    workspace = ground.workspace
    for act in (
        lambda: workspace.endpoint("nobody"),
        lambda: workspace.delete_endpoint("nobody"),
        lambda: workspace.keys("nobody"),
        lambda: workspace.regenerate_key("nobody", "primary"),
        lambda: workspace.set_traffic("nobody", {}),
        lambda: workspace.set_mirror("nobody", {}),
        lambda: workspace.monitor("nobody"),
        lambda: workspace.deploy("nobody", "blue", "colours:1"),
        lambda: workspace.scale("nobody", "blue", 1),
        lambda: workspace.scale(birds, "red", 1),
        lambda: workspace.delete_deployment("nobody", "blue"),
        lambda: workspace.delete_deployment(birds, "red"),
        lambda: workspace.deployment_log(birds, "red", 10),
        lambda: workspace.invoke("nobody", b"", {}),
    ):
        with pytest.raises(NotFound):
            await act()


async def test_a_taken_name_and_no_name_are_refused(ground, birds):
    with pytest.raises(Conflict):
        await ground.workspace.create_endpoint(birds)
    for name in ("ab", "1st", "a" * 33, "two--dashes", "end-", "a_b", "../up"):
        with pytest.raises(Invalid):
            await ground.workspace.create_endpoint(name)
        with pytest.raises(Invalid):
            await ground.workspace.deploy(birds, name, "colours:1")


def write_files(folder):
    """An endpoint's and a deployment's files, with the code that they name beside them."""
    (folder / "src").mkdir()
    (folder / "src" / "score.py").write_text(SCORE)
    (folder / "weights").mkdir()
    (folder / "weights" / "w.bin").write_bytes(b"w" * 100)
    (folder / "endpoint.yml").write_text("name: aviary\nauth_mode: key\ndescription: of a file\ntags: {owner: me}\n")
    (folder / "blue.yml").write_text(
        "name: blue\nendpoint_name: aviary\nmodel: {path: ./weights}\n"
        "code_configuration: {code: ./src, scoring_script: score.py}\n"
        f"environment: {ENVIRONMENT}\ninstance_type: Standard_DS3_v2\ninstance_count: 1\n"
        "request_settings: {request_timeout_ms: 4000}\nenvironment_variables: {A: b}\n"
    )
    return read(folder / "endpoint.yml"), read(folder / "blue.yml")


async def test_files_say_what_is_made_and_changed(ground, tmp_path):
    endpoint_file, deployment_file = write_files(tmp_path)
    workspace = ground.workspace
    with pytest.raises(NotFound):
        await workspace.deploy_from(deployment_file)
    made = await operations.deploy_file(workspace, endpoint_file)
    assert (made.name, made.description, made.deployments) == ("aviary", "of a file", ())
    assert made.tags == {"owner": "me"}
    blue = await operations.deploy_file(workspace, deployment_file)
    assert (blue.name, blue.endpoint, blue.state, blue.instances) == ("blue", "aviary", "Succeeded", 1)
    found = await until(lambda: workspace.endpoint("aviary"), lambda found: found.traffic.get("blue") == 100)
    assert (await workspace.invoke("aviary", b"{}", {"Content-Type": "application/json"})).status == 200
    changed = await operations.deploy_file(
        workspace, endpoint_file.edit({"description": "changed", "traffic.blue": 100})
    )
    assert (changed.description, given(changed.traffic)) == ("changed", {"blue": 100})
    assert [one.name for one in changed.deployments] == [one.name for one in found.deployments]
    green = await operations.deploy_file(workspace, deployment_file, name="green")
    assert (green.name, given((await workspace.endpoint("aviary")).traffic)) == ("green", {"blue": 100})


async def test_a_file_of_another_kind_is_refused(ground, tmp_path):
    endpoint_file, deployment_file = write_files(tmp_path)
    with pytest.raises(Invalid):
        await ground.workspace.create_endpoint_from(deployment_file)
    with pytest.raises(Invalid):
        await ground.workspace.deploy_from(endpoint_file)


async def test_a_deployment_goes_when_it_has_no_traffic(ground, birds):
    workspace = ground.workspace
    await share(ground, green=100)
    with pytest.raises(Conflict):
        await workspace.delete_deployment(birds, "green")
    await share(ground, blue=100)
    await workspace.delete_deployment(birds, "green")
    found = await until(
        lambda: workspace.endpoint(birds), lambda found: [one.name for one in found.deployments] == ["blue"]
    )
    assert given(found.traffic) == {"blue": 100}
    assert (await workspace.invoke(birds, served.picture("red"), PNG)).status == 200


async def test_an_endpoint_goes_with_its_deployments(ground, birds):
    await ground.workspace.delete_endpoint(birds)
    with pytest.raises(NotFound):
        await ground.workspace.endpoint(birds)
    assert birds not in [one.name for one in await ground.workspace.endpoints()]
