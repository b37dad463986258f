"""The cause of a failed job, from the logs and exit codes of its ranks."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from footplate.logs.failure import Card, Known, LogText, find
from footplate.logs.failure_kinds import KINDS, exit_words, signal_of

CASE = Path(__file__).resolve().parents[3] / "shared" / "cases" / "logs" / "l16_torchrun_failure.log"


def of(*texts: str, **known: object) -> Card:
    """The card of a job whose ranks wrote these logs, each a file of its own."""
    logs = [
        LogText(
            f"user_logs/std_log_process_{rank}.txt" if len(texts) > 1 else "user_logs/std_log.txt", rank, text.encode()
        )
        for rank, text in enumerate(dedent(text) for text in texts)
    ]
    known.setdefault("ranks_per_node", len(texts))
    return find(logs, Known(**known))  # type: ignore[arg-type]


def raised(line: str, file: str = "train.py", number: int = 30) -> str:
    return f'Traceback (most recent call last):\n  File "{file}", line {number}, in main\n    go()\n{line}\n'


PEER = raised(
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.4]:7001"
)
NCCL = (
    "[rank{0}]:[E213 10:02:03.1 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL("
    "SeqNum={1}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600071 milliseconds before timing out.\n"
)


def test_the_case_tells_of_rank_1_and_not_of_the_bystander_that_torchrun_blames():
    if not CASE.exists():
        pytest.skip("the cases are not here")
    card = find([LogText("user_logs/std_log.txt", None, CASE.read_bytes())], Known(error="exit code 1"))
    assert card.headline == "rank 1: ValueError: cannot decode 'data/class_b/007.png'"
    assert (card.rank, card.line, str(card.origin and card.origin.file), card.origin and card.origin.line) == (
        1,
        7,
        "train.py",
        30,
    )
    assert card.ranks[0].progress.step == 10
    assert card.ranks[0].exit_code == 1
    assert "Connection closed by peer" in card.ranks[0].said


ALONE = [
    (
        "cuda_out_of_memory",
        raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 15 GiB."),
    ),
    ("cuda_out_of_memory", raised("RuntimeError: CUDA error: out of memory\nCUDA kernel errors might come later.")),
    (
        "shared_memory",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"
        + raised(
            "RuntimeError: DataLoader worker (pid 77) is killed by signal: Bus error. It is possible that workers are out of it."
        ),
    ),
    ("shared_memory", raised("RuntimeError: unable to write to file </torch_41_2_7>: No space left on device (28)")),
    ("disk_full", raised("OSError: [Errno 28] No space left on device: 'outputs/epoch_9.pt'")),
    ("out_of_memory", raised("RuntimeError: DataLoader worker (pid 91) is killed by signal: Killed. ")),
    ("out_of_memory", raised("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 9.3 GiB for an array")),
    (
        "out_of_memory",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=5.0. Some of the step tasks were OOM Killed.\n",
    ),
    ("missing_module", raised("ModuleNotFoundError: No module named 'timm'")),
    ("missing_module", "/usr/bin/python3: No module named trainer\n"),
    ("broken_import", raised("ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory")),
    ("missing_script", "python3: can't open file '/job/trian.py': [Errno 2] No such file or directory\n"),
    ("missing_file", raised("FileNotFoundError: [Errno 2] No such file or directory: '/mnt/data/train.csv'")),
    ("missing_command", "bash: line 1: trochrun: command not found\n"),
    ("not_permitted", raised("PermissionError: [Errno 13] Permission denied: '/mnt/inputs/cache'")),
    (
        "wrong_arguments",
        "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --learning-rate 0.1\n",
    ),
    (
        "port_taken",
        raised("torch.distributed.DistNetworkError: The server socket has failed to listen: EADDRINUSE (port 29500)"),
    ),
    (
        "duplicate_gpu",
        raised("torch.distributed.DistBackendError: NCCL error: invalid usage. Duplicate GPU detected : rank 1"),
    ),
    ("no_gpu", raised("RuntimeError: No CUDA GPUs are available")),
    ("device_assert", raised("RuntimeError: CUDA error: device-side assert triggered")),
    (
        "uneven_collectives",
        raised("RuntimeError: Expected to have finished reduction in the prior iteration before a new one."),
    ),
    ("one_sample", raised("ValueError: Expected more than 1 value per channel when training, got input size [1, 512]")),
    (
        "other_weights",
        raised("RuntimeError: Error(s) in loading state_dict for ResNet:\n\tsize mismatch for fc.weight"),
    ),
    ("wrong_shapes", raised("RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x2048 and 512x10)")),
    ("bad_picture", raised("PIL.UnidentifiedImageError: cannot identify image file 'a.jpg'")),
    ("too_many_files", raised("OSError: [Errno 24] Too many open files: 'a.jpg'")),
    (
        "network",
        raised("requests.exceptions.ConnectionError: HTTPSConnectionPool(host='x'): Max retries exceeded with url: /w"),
    ),
    ("segfault", "step 3\nbash: line 1:  4242 Segmentation fault      (core dumped) python train.py\n"),
    (
        "segfault",
        'Fatal Python error: Segmentation fault\n\nCurrent thread 0x01 (most recent call first):\n  File "ops.py", line 7 in run\n',
    ),
    ("abort", "terminate called after throwing an instance of 'c10::Error'\n  what():  stack is empty\n"),
    ("interrupted", raised("KeyboardInterrupt")),
    ("syntax", '  File "train.py", line 3\n    def (\n        ^\nSyntaxError: invalid syntax\n'),
    ("mpi_abort", "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\nwith errorcode 3.\n"),
    ("mpi_killed", "mpirun noticed that process rank 3 with PID 0 on node gpu-1 exited on signal 9 (Killed).\n"),
    ("exception", raised("birds.NoFeathers: this one has none")),
    ("unknown", "starting\nloading\n"),
]


@pytest.mark.parametrize(("kind", "text"), ALONE, ids=[f"{i}-{kind}" for i, (kind, _) in enumerate(ALONE)])
def test_each_kind_is_known_by_what_it_writes(kind, text):
    card = of("epoch 1 step 10 loss 0.7\n" + text, error="exit code 1")
    assert card.kind == kind
    assert card.sentence.strip()
    assert card.next_step.strip()
    assert "{" not in card.sentence


def test_no_sentence_of_the_table_names_what_its_sign_does_not_find():
    for kind in KINDS:
        kind.sentence.format(shm="", **dict.fromkeys(kind.sign.groupindex, ""))


SIGTERM = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 15"
CAUGHT = "epoch 1\n" + raised("OSError: retry") + "epoch 2\n" + PEER
EARLY, LATE = "2026-01-01 10:00:04,9 ", "2026-01-01 10:00:05,1 "
PIPE = "BrokenPipeError: [Errno 32] Broken pipe"
RANKS = [
    ("the bystander's log is read first", [PEER, raised("ValueError: bad")], "", "ValueError"),
    ("a caught exception that training went on after", [CAUGHT, raised("TypeError: x")], "", "TypeError"),
    ("with times, the earlier", [LATE + raised("ValueError: b"), EARLY + raised("ValueError: a")], "", "ValueError"),
    ("the process that ended first", [raised("ValueError: b"), raised("ValueError: a")], "rank 1: x", "ValueError"),
    ("a broken pipe in a loader", [raised(PIPE), raised("IndexError: 7")], "", "IndexError"),
    ("SIGTERM by torchrun", [raised(SIGTERM), raised("ZeroDivisionError: by zero")], "", "ZeroDivisionError"),
    ("a warning", ["WARNING: Temporary failure in name resolution\n", raised("KeyError: 'lr'")], "", "KeyError"),
]


@pytest.mark.parametrize(("texts", "error", "exception"), [row[1:] for row in RANKS], ids=[row[0] for row in RANKS])
def test_bystanders_are_not_blamed(texts, error, exception):
    card = of(*texts, error=error)
    assert (card.rank, card.exception) == (1, exception)


def test_of_chained_exceptions_the_cause_is_told_and_what_it_led_to():
    cause = raised("FileNotFoundError: [Errno 2] No such file or directory: 'birds/7.png'", "data.py", 9)
    direct = "\nThe above exception was the direct cause of the following exception:\n\n" + raised(
        "RuntimeError: sample 7"
    )
    card = of(cause + direct)
    assert (card.kind, card.exception, card.line) == ("missing_file", "FileNotFoundError", 4)
    assert card.then == ("RuntimeError: sample 7",)
    meanwhile = "\nDuring handling of the above exception, another exception occurred:\n\n" + raised(
        "ValueError: no such bird"
    )
    assert of(raised("KeyError: 'bird'") + meanwhile).message == "no such bird"


def test_a_loaders_and_a_spawned_process_s_own_traceback_is_the_cause():
    worker = (
        raised("RuntimeError: Caught RuntimeError in DataLoader worker process 0.")
        + "Original "
        + raised("ValueError: 7", "data.py", 2)
    )
    assert (of(worker).exception, str(of(worker).origin and of(worker).origin.file)) == ("ValueError", "data.py")
    spawned = (
        raised("torch.multiprocessing.spawn.ProcessRaisedException: ")
        + "\n-- Process 1 terminated with the following error:\n"
    )
    card = find(
        [LogText("user_logs/std_log.txt", 0, (spawned + raised("ValueError: nan")).encode())], Known(ranks_per_node=2)
    )
    assert (card.rank, card.exception) == (1, "ValueError")


def test_the_line_of_user_code_is_told_and_not_the_library_s():
    text = (
        'Traceback (most recent call last):\n  File "train.py", line 12, in step\n    f()\n'
        '  File "/opt/env/lib/python3.11/site-packages/torch/nn/functional.py", line 99, in relu\n    g()\nTypeError: x\n'
    )
    origin = of(text).origin
    assert origin is not None
    assert (origin.file, origin.line, origin.function) == ("train.py", 12, "step")


def test_a_killed_rank_is_blamed_before_those_that_lost_it():
    card = of(
        "epoch 3 step 40\n" + PEER, "epoch 3 step 41\n", ends={0: 1, 1: 137}, error="rank 1: epoch 3 (exit code 137)"
    )
    assert (card.rank, card.kind) == (1, "killed")
    assert "likely" in card.sentence
    assert "memory" in card.next_step
    assert card.ranks[1].document() | {"file": None} == {
        "rank": 1, "node": 0, "exit_code": 137, "signal": "SIGKILL", "last_step": 41, "last_epoch": 3,
        "last_line": "epoch 3 step 41", "said": None, "file": None,
    }  # fmt: skip


def test_a_rank_that_had_to_be_killed_after_another_failed_is_not_blamed():
    card = of("epoch 1\n", "epoch 1\n", ends={0: 137, 1: 3}, error="rank 1: epoch 1 (exit code 3)")
    assert card.rank == 1


def test_the_rank_that_did_not_arrive_at_a_collective_is_named():
    card = of(*("step 454\n" + NCCL.format(rank, 901) for rank in (0, 1)), "step 453\n")
    assert (card.rank, card.kind) == (2, "nccl_timeout")
    assert "waited for rank 2" in card.sentence
    assert "step 453" in card.sentence
    card = of(*(NCCL.format(rank, 901 - (rank == 1)) for rank in range(3)))
    assert card.rank == 1, "it enqueued one operation less than the others"
    barrier = raised("RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 60000 ms")
    assert "rank 1, 3" in of(barrier, "", "", "").sentence


def test_who_never_arrived_at_the_rendezvous_is_told():
    waits = raised(
        "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 2/3 clients joined."
    )
    card = of(waits, waits, "")
    assert (card.kind, card.never_arrived) == ("rendezvous", (2,))
    card = of(waits, raised("ModuleNotFoundError: No module named 'timm'"), waits)
    assert (card.rank, card.kind, card.never_arrived) == (1, "missing_module", (1,))


def test_a_torchrun_summary_tells_exit_codes_and_an_error_file_s_traceback():
    text = """\
        [default0]:epoch 2 step 8
        [default1]:epoch 2 step 9
        torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
        ============================================================
        train.py FAILED
        ------------------------------------------------------------
        Failures:
        [1]:
          time      : 2026-01-01_00:00:02
          host      : node-0
          rank      : 0 (local_rank: 0)
          exitcode  : -15 (pid: 80)
          error_file: <N/A>
          traceback : Signal 15 (SIGTERM) received by PID 80
        ------------------------------------------------------------
        Root Cause (first observed failure):
        [0]:
          time      : 2026-01-01_00:00:01
          host      : node-0
          rank      : 1 (local_rank: 1)
          exitcode  : {code} (pid: 81)
          error_file: /tmp/e.json
          traceback : {traceback}
        ============================================================
        """
    killed = of(dedent(text).format(code=-9, traceback="Signal 9 (SIGKILL) received by PID 81"), error="exit code 1")
    assert (killed.rank, killed.kind) == (1, "killed")
    assert [story.signal for story in killed.ranks] == ["SIGTERM", "SIGKILL"]
    quoted = (
        'Traceback (most recent call last):\n    File "train.py", line 4, in main\n      go()\n  ValueError: bad bird'
    )
    card = of(dedent(text).format(code=1, traceback=quoted), error="exit code 1")
    assert (card.exception, card.message) == ("ValueError", "bad bird")


def test_the_workspace_s_own_word_counts_where_it_ended_the_job():
    card = of(raised("KeyboardInterrupt"), error="it ran into its time limit of 60 s (limits.timeout)", ends={0: 143})
    assert card.kind == "time_limit"
    assert "limits.timeout" in card.next_step
    assert of("epoch 1\n", error="The node was preempted.").kind == "preempted"
    assert of("", error="Failed to build image abc").kind == "image"


def test_what_a_service_quotes_of_the_script_is_read_where_the_logs_say_nothing():
    quoted = "User process exited with status code 1.\n" + raised("ModuleNotFoundError: No module named 'timm'")
    card = of("", error=quoted)
    assert (card.kind, card.exception, card.is_traceback, card.lines[0]) == (
        "missing_module",
        "ModuleNotFoundError",
        True,
        "Traceback (most recent call last):",
    )
    assert of("", error="User program failed with RuntimeError: CUDA out of memory.").kind == "cuda_out_of_memory"
    assert of(raised("ValueError: x"), error=quoted).exception == "ValueError", "the log itself comes first"
    assert of("", error="The process ended with exit code 137.").kind == "killed"


def test_the_shared_memory_that_the_job_had_is_told():
    text = raised("RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. ")
    assert "it had 2g" in of(text, shm_size="2g").sentence
    assert "resources.shm_size" in of(text).sentence


def test_what_nothing_tells_is_said_to_be_unknown_with_the_last_lines():
    card = of(
        *("\n".join(f"line {i}" for i in range(40)) for _ in range(2)),
        ends={0: 0, 1: 5},
        error="rank 1: line 39 (exit code 5)",
    )
    assert (card.kind, card.rank, card.lines[-1], len(card.lines)) == ("unknown", 1, "line 39", 10)
    assert "Exit code 5" in card.sentence
    assert of("", error="").sentence.startswith("Nothing was written")


def test_a_line_that_another_rank_broke_goes_to_both():
    text = (
        "[rank0]: step 1 lo[rank1]: Traceback (most recent call last):\nss 0.7\n"
        '[rank1]:   File "t.py", line 3, in f\n[rank1]: ValueError: x\n'
    )
    card = of(text)
    assert card.headline == "rank 1: ValueError: x"


@pytest.mark.parametrize(
    ("code", "signal", "word"),
    [
        (137, "SIGKILL", "memory"),
        (-9, "SIGKILL", "memory"),
        (139, "SIGSEGV", "segmentation"),
        (134, "SIGABRT", "abort"),
        (143, "SIGTERM", "told to end"),
        (135, "SIGBUS", "shared memory"),
        (124, None, "time limit"),
        (127, None, "not found"),
        (126, None, "cannot be executed"),
        (1, None, "failed"),
    ],
)
def test_exit_codes_in_words(code, signal, word):
    assert signal_of(code) == signal
    assert word in exit_words(code)[1]


def test_odd_text_breaks_nothing_and_long_lines_cost_nothing():
    text = (
        "\x1b[31mTraceback (most recent call last):\x1b[0m\n  File "
        + "a" * 2_000_000
        + "\nValueError: \x1b]0;x\x07[bold]no[/]\n"
    )
    card = of(text)
    assert card.message == "[bold]no[/]"
    for odd in (
        "Traceback (most recent call last):\n",
        "Traceback (most recent call last):\n  File\n",
        "\x00\xff" * 100,
        "[rank99999999]: x",
    ):
        of(odd)
