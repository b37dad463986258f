"""What will run: resolved commands, and every rank's variables for each distribution."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from footplate.jobfile import Plan, plan
from footplate.jobfile.document import parse
from footplate.jobfile.expressions import with_double_braces
from footplate.jobfile.limits import MOST_RANKS
from footplate.jobfile.plan import sweep_plan, visible_lines
from footplate.workspace import Invalid

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "yaml"


def job(text: str):
    return parse(text, Path("job.yml"), Path("/"))


def command_job(more: str = "", command: str = "python train.py"):
    return job(f"command: {command}\nenvironment: azureml:e:1\n{more}")


def distributed(distribution: str, nodes: int = 2):
    return plan(command_job(f"distribution: {distribution}\nresources: {{instance_count: {nodes}}}\n"))


def test_pytorch_ranks_know_their_place_in_the_group():
    ranks = distributed("{type: PyTorch, process_count_per_instance: 2}").ranks()
    assert [(r.rank, r.node) for r in ranks] == [(0, 0), (1, 0), (2, 1), (3, 1)]
    assert ranks[3].environment == {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "4",
        "NODE_RANK": "1",
        "MASTER_ADDR": "node-0",
        "MASTER_PORT": "29500",
    }


def test_mpi_ranks_get_open_mpis_variables_and_no_others():
    ranks = distributed("{type: mpi, process_count_per_instance: 2}").ranks()
    assert [r.environment["OMPI_COMM_WORLD_RANK"] for r in ranks] == ["0", "1", "2", "3"]
    assert ranks[3].environment == {
        "OMPI_COMM_WORLD_RANK": "3",
        "OMPI_COMM_WORLD_SIZE": "4",
        "OMPI_COMM_WORLD_LOCAL_RANK": "1",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    }


def test_tensorflow_processes_get_the_cluster_and_their_task():
    ranks = distributed("{type: tensorflow, worker_count: 3, parameter_server_count: 2}").ranks()
    configs = [json.loads(rank.environment["TF_CONFIG"]) for rank in ranks]
    assert [(c["task"]["type"], c["task"]["index"]) for c in configs] == [
        ("worker", 0), ("worker", 1), ("worker", 2), ("ps", 0), ("ps", 1),
    ]  # fmt: skip
    clusters = [config["cluster"] for config in configs]
    assert all(cluster == clusters[0] for cluster in clusters)
    assert (len(clusters[0]["worker"]), len(clusters[0]["ps"])) == (3, 2)
    addresses = clusters[0]["worker"] + clusters[0]["ps"]
    assert len(set(addresses)) == 5
    assert [address.partition(":")[0] for address in addresses] == [f"node-{rank.node}" for rank in ranks]
    assert {rank.node for rank in ranks} == {0, 1}
    assert [rank.role for rank in ranks] == ["worker", "worker", "worker", "ps", "ps"]


def test_tensorflow_has_a_worker_a_node_and_no_servers_unless_told():
    ranks = distributed("{type: tensorflow}", nodes=3).ranks()
    cluster = json.loads(ranks[0].environment["TF_CONFIG"])["cluster"]
    assert [rank.node for rank in ranks] == [0, 1, 2]
    assert (len(cluster["worker"]), "ps" in cluster) == (3, False)


def test_ray_has_one_head_and_a_worker_on_every_other_node():
    ranks = distributed("{type: ray, port: 6379}", nodes=3).ranks()
    assert [(rank.node, rank.role) for rank in ranks] == [(0, "head"), (1, "worker"), (2, "worker")]
    assert ranks[0].document()["role"] == "head"


def test_without_distribution_no_variable_is_made_up():
    ranks = plan(command_job("environment_variables: {A: 1, B: null}\n")).ranks()
    assert [rank.environment for rank in ranks] == [{"A": "1", "B": ""}]
    assert set(ranks[0].document()) == {"rank", "node", "environment", "command"}


def test_more_processes_than_are_planned_are_refused_at_once():
    each = 2 * MOST_RANKS
    with pytest.raises(Invalid, match=f"asks for {2 * each} processes"):
        distributed(f"{{type: pytorch, process_count_per_instance: {each}}}")
    with pytest.raises(Invalid, match="processes"):
        distributed("{type: tensorflow, worker_count: 2147483647}")


def test_a_plan_survives_the_store_and_an_older_one_is_read():
    made = distributed("{type: tensorflow, worker_count: 3}")
    assert Plan.from_document(json.loads(json.dumps(made.document()))) == made
    old = {"command": "true", "nodes": 1, "ranks_per_node": 2, "distribution": "pytorch", "environment_variables": {}}
    assert Plan.from_document(old).world_size == 2


def test_literals_become_the_text_that_azures_client_sends():
    inputs = "inputs: {a: yes, b: 1.0e-5, c: 1e-5, d: 007, e: 12:30, f: '', g: {value: 0}}\n"
    names = " ".join(f"[${{{{inputs.{name}}}}}]" for name in "abcdefg")
    assert plan(command_job(inputs, f"echo {names}")).command == "echo [True] [1e-05] [1e-5] [7] [750] [] [0]"


def test_data_stands_as_its_address_only_where_it_is_passed_as_one():
    inputs = (
        "inputs:\n"
        "  mounted: {type: uri_folder, path: 'https://x.example/a'}\n"
        "  address: {type: uri_folder, path: 'https://x.example/b', mode: direct}\n"
        "  asset: {type: uri_folder, path: 'azureml:birds@latest', mode: direct}\n"
        "  copied: {type: uri_file, path: ./c.csv, mode: download}\n"
    )
    command = "cat ${{inputs.mounted}} ${{ inputs.address }} ${{inputs.asset}} ${{inputs.copied}} > ${{outputs.model}}"
    made = plan(command_job(f"{inputs}outputs: {{model: {{type: uri_folder}}}}\n", command))
    assert made.command == (
        "cat <mounted: https://x.example/a> https://x.example/b <asset: azureml:birds@latest> <copied: ./c.csv> "
        "> <output model>"
    )
    inputs_given = {"mounted": "/data"}
    made = plan(command_job(f"{inputs}outputs: {{model: }}\n", command), inputs_given, {"model": "/out"})
    assert made.command.startswith("cat /data ")
    assert made.command.endswith("> /out")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "command: echo ${{inputs.learnin_rate}}\nenvironment: azureml:e:1\ninputs: {learning_rate: 1}\n",
            "inputs.learning_rate",
        ),
        ("command: '${{inputs.a}}'\nenvironment: azureml:e:1\ninputs: {a: ' '}\n", "empty"),
        ("type: sweep\ntrial: {command: x, environment: azureml:e:1}\n", "a sweep job"),
        ("command: [a]\nenvironment: azureml:e:1\n", "command"),
    ],
)
def test_what_cannot_run_is_a_sentence(text, words):
    with pytest.raises(Invalid, match=words):
        plan(job(text))


SWEEP = """\
type: sweep
trial:
  command: python train.py --lr ${{search_space.lr}} --bs ${{ search_space.bs }} --epochs ${{inputs.epochs}}
  environment: azureml:e:1
  environment_variables: {OWN: x}
inputs: {epochs: 3}
sampling_algorithm: SAMPLING
search_space:
  lr: LR
  bs: {type: choice, values: [4, 8]}
objective: {goal: maximize, primary_metric: acc}
limits: {max_total_trials: 4, max_concurrent_trials: 2}
"""


def sweep(sampling: str = "random", lr: str = "{type: uniform, min_value: 0.001, max_value: 0.1}"):
    return job(SWEEP.replace("SAMPLING", sampling).replace("LR", lr))


def test_a_sweeps_command_keeps_its_swept_values_and_each_sample_has_its_own():
    made = sweep_plan(sweep())
    assert made.plan.command == (
        "python train.py --lr ${{search_space.lr}} --bs ${{search_space.bs}} --epochs 3"
    )  # fmt: skip
    assert made.search_space == {"lr": ["uniform", [0.001, 0.1]], "bs": ["choice", [[4, 8]]]}
    assert len(made.trials) == 3
    for trial in made.trials:
        lr, bs = trial.values["lr"], trial.values["bs"]
        assert 0.001 <= float(lr) <= 0.1
        assert bs in ("4", "8")
        assert trial.plan.command == f"python train.py --lr {lr} --bs {bs} --epochs 3"
        assert trial.plan.environment(0) == {"OWN": "x", "AZUREML_SWEEP_lr": lr, "AZUREML_SWEEP_bs": bs}
    assert len({trial.values["lr"] for trial in made.trials}) == 3
    assert sweep_plan(sweep()) == made


def test_a_grids_samples_are_its_first_points():
    lr = "{type: choice, values: [0.1, small]}"
    for sampling in ("grid", "{type: grid}"):
        trials = sweep_plan(sweep(sampling, lr)).trials
        assert [tuple(t.values.values()) for t in trials] == [("0.1", "4"), ("0.1", "8"), ("small", "4")]


def test_a_sweep_whose_command_names_an_unknown_space_is_refused():
    text = SWEEP.replace("SAMPLING", "random").replace("LR", "{type: uniform, min_value: 0, max_value: 1}")
    with pytest.raises(Invalid, match=r"search_space\.lrr.*Did you mean"):
        sweep_plan(job(text.replace("search_space.lr}", "search_space.lrr}")))


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("python train.py", ("python train.py",)),
        ("a\nb\n", ("a⏎", "b⏎")),
        ("a \\\n  --x 1", ("a \\⏎", "  --x 1")),
        ("a \\  \n  --x 1", ("a \\··⏎", "  --x 1")),
        ("a\t1  ", ("a→1··",)),
        ("a\r\nb", ("a␍⏎", "b")),
        ("a\n\nb", ("a⏎", "⏎", "b")),
        ("a\u00a0b", ("a⍽b",)),
        ("", ("",)),
    ],
)
def test_line_breaks_and_what_cannot_be_seen_are_shown(command, shown):
    assert visible_lines(command) == shown


@pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not there")
def test_a_command_of_three_lines_is_shown_as_three():
    from footplate.jobfile import read

    made = plan(read(CASES / "y03_multiline_pipe.yml"))
    assert visible_lines(made.command) == ("pip list⏎", "python train.py --lr 0.01⏎", "echo finished⏎")


@pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not there")
def test_values_with_shell_characters_stand_in_the_command_as_they_are():
    from footplate.jobfile import read

    assert plan(read(CASES / "y11_shell_metacharacters.yml")).command == (
        "python train.py --title two words; echo INJECTED && echo $HOME --glob *.py --label 'it's #1 – naïve [bold] café'"
    )
    assert plan(read(CASES / "y06_empty_string_input.yml")).command == 'python train.py --tag "" --note  '


SINGLE = [
    "a {inputs.x} b",
    "${inputs.x}",
    "{{inputs.x}} {inputs.x}",
    "{inputs.x y}{outputs.o}",
    "{search_space.x}{outputs.{inputs.x}",
    "{inputs.{outputs.o}}",
    "{parent.inputs.x} ${{inputs.x}}",
]


@pytest.mark.parametrize("command", SINGLE)
def test_single_braces_are_read_as_azures_client_reads_them(command):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from azure.ai.ml._utils.utils import map_single_brackets_and_warn

    assert command_job(command=json.dumps(command)).command == map_single_brackets_and_warn(command)


def test_single_braces_are_filled_in_and_the_dollar_before_them_stays():
    made = plan(command_job("inputs: {x: 5}\noutputs: {o: }\n", "'run {inputs.x} ${inputs.x} {outputs.o} {inputs}'"))
    assert made.command == "run 5 $5 <output o> {inputs}"


def test_single_braces_that_are_never_closed_take_no_longer_than_their_length():
    opened = "{inputs." * 100_000
    assert with_double_braces(f"{opened}}}}}") == f"{opened}}}}}"


def test_the_path_of_a_jobs_input_is_refused_as_azures_client_refuses_it():
    inputs = "inputs: {a: {type: uri_file, path: azureml:d:1}}\noutputs: {o: }\n"
    with pytest.raises(Invalid, match=r"\$\{\{inputs\.a\.path\}\} has no value"):
        plan(command_job(inputs, "cat ${{inputs.a.path}}"))
    assert plan(command_job(inputs, "ls ${{outputs.o.path}}")).command == "ls <output o>"
