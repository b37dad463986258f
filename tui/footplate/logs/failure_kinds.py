"""What makes trainings fail: how it shows in a log or an exit code, what it means, and what to do next."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from enum import IntEnum


class Weight(IntEnum):
    """How much a sign tells of the cause: of several, those of the lowest weight count, and of them the earliest."""

    CAUSE = 0
    LIKELY = 1
    """A process that was killed, or waited in vain: the cause where nobody says better."""
    BYSTANDER = 2
    """What other ranks say when one is gone."""
    WRAPPER = 3
    """What launchers say of the processes they started."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of failure. `sentence` and `next_step` may name the groups of `sign`, and `{shm}` the shared memory of the job."""

    id: str
    sign: re.Pattern[str]
    sentence: str
    next_step: str
    weight: Weight = Weight.CAUSE
    bare: bool = True
    """Whether a line that stands by itself is a sign too, rather than an exception's text only."""


def _kind(
    id: str, sign: str, sentence: str, next_step: str, weight: Weight = Weight.CAUSE, *, bare: bool = True
) -> Kind:
    return Kind(id, re.compile(sign), sentence, next_step, weight, bare)


KINDS: tuple[Kind, ...] = (
    _kind(
        "cuda_out_of_memory",
        r"CUDA out of memory|\bOutOfMemoryError: CUDA|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|HIP out of memory",
        "The GPU's memory did not suffice.",
        "Give each rank a smaller batch, use bf16 or gradient checkpointing, or take a size with more GPU memory.",
    ),
    _kind(
        "shared_memory",
        r"(?i)killed by signal: bus error|unexpected bus error|\bbus error\b|insufficient shared memory|out of shared memory"
        r"|unable to (?:open|allocate|write to file) .*shared memory|unable to write to file </torch_|/dev/shm.*no space left",
        "A process found no more shared memory (/dev/shm), which the DataLoader's workers hand their batches over in; {shm}.",
        "Set resources.shm_size to more, as 8g, or use fewer workers (num_workers).",
    ),
    _kind(
        "disk_full",
        r"No space left on device|\bENOSPC\b|Disk quota exceeded|database or disk is full|PytorchStreamWriter failed writing",
        "The disk was full.",
        "Write fewer or smaller checkpoints, remove what lies in outputs and caches, or take a larger disk.",
    ),
    _kind(
        "out_of_memory",
        r"killed by signal: Killed|(?i:oom[-_ ]kill)|Out of memory: Killed process|Cannot allocate memory|\bMemoryError\b"
        r"|DefaultCPUAllocator: (?:can't|not enough)|std::bad_alloc|Unable to allocate [\d.]+ .iB",
        "The machine's memory did not suffice.",
        "Use a smaller batch, fewer DataLoader workers or fewer ranks a node, or take a size with more memory.",
    ),
    _kind(
        "missing_module",
        r"No module named '?(?P<name>[\w.]+)'?",
        "The Python of the job has no module {name}.",
        "Add the package to the environment's conda file, or the file to the code folder where it is the job's own.",
        bare=False,
    ),
    _kind(
        "missing_module",
        r"^\S*python[\d.]*: No module named '?(?P<name>[\w.]+)'?",
        "The Python of the job has no module {name}.",
        "Add the package to the environment's conda file, or the file to the code folder where it is the job's own.",
    ),
    _kind(
        "broken_import",
        r"cannot import name '(?P<name>[^']+)'|undefined symbol|cannot open shared object file|GLIBC(?:XX)?_[\d.]+'? not found"
        r"|DLL load failed",
        "A package does not fit the others or the image.",
        "Compare the versions in the environment with those that the package asks for.",
    ),
    _kind(
        "missing_script",
        r"can't open file '?(?P<name>[^':]+)'?",
        "The script {name} is not where the job was started.",
        "Check command and code in the job file: paths in the command begin at the code folder.",
    ),
    _kind(
        "missing_file",
        r"FileNotFoundError|(?:^|: )No such file or directory",
        "A file that the job opens is not there.",
        "Check the path against the inputs of the job file: data lie where an input is mounted, not in the code folder.",
        bare=False,
    ),
    _kind(
        "missing_file",
        r"^\S+: (?:line \d+: )?(?P<name>\S+): No such file or directory",
        "There is no {name} where the job was started.",
        "Check the path in the command: it begins at the code folder.",
    ),
    _kind(
        "missing_command",
        r"(?P<name>\S+): (?:command )?not found$",
        "There is no command {name} in the job's image or on its PATH.",
        "Install it in the environment, or mend its name in the command.",
    ),
    _kind(
        "not_executable",
        r"^\S+: (?:line \d+: )?(?P<name>\S+): (?:Permission denied|cannot execute)|Exec format error",
        "A command cannot be executed.",
        "Start it through its interpreter, as python or bash, or make it executable before it is uploaded.",
    ),
    _kind(
        "not_permitted",
        r"PermissionError|Read-only file system",
        "The job may not write or read a path.",
        "Write to ./outputs or to an output of the job file; inputs that are mounted are read-only.",
        bare=False,
    ),
    _kind(
        "wrong_arguments",
        r"\berror: (?:unrecognized arguments|the following arguments are required|argument |ambiguous option)"
        r"|\berror: .*expected one argument",
        "The script does not take the arguments that the command gives it.",
        "Compare the command of the job file with the script's --help.",
    ),
    _kind(
        "nccl_timeout",
        r"Watchdog caught collective operation timeout|collective operations? (?:has |have )?timed out|NCCL.*timed? ?out",
        "A collective operation (NCCL) waited in vain for other ranks.",
        "Look at the rank that did not arrive: it hung, ended, or took another branch than the others.",
        Weight.LIKELY,
    ),
    _kind(
        "gloo_timeout",
        r"Timed out waiting \d+ms for (?:recv|send) operation|failed to pass monitoredBarrier|monitoredBarrier.*timed out",
        "A collective operation (gloo) waited in vain for other ranks.",
        "Look at the rank that did not arrive: it hung, ended, or took another branch than the others.",
        Weight.LIKELY,
    ),
    _kind(
        "port_taken",
        r"EADDRINUSE|(?i:address already in use)",
        "The port of the rendezvous was in use.",
        "Leave MASTER_PORT to the launcher, or give each job on the machine a port of its own.",
    ),
    _kind(
        "rendezvous",
        r"Timed out after \d+ seconds waiting for clients|[Ss]tore.based barrier on rank|RendezvousTimeoutError"
        r"|RendezvousConnectionError|RendezvousClosedError|client socket has timed out|wait timeout after \d+ms, keys"
        r"|for \d+ of \d+ ranks: [\d, ]+ did not come|did not meet rank 0 at",
        "The ranks did not find each other: not all arrived at the rendezvous.",
        "Look at the ranks that never arrived; check that nodes × ranks of the job file is what the script waits for.",
        Weight.LIKELY,
    ),
    _kind(
        "duplicate_gpu",
        r"Duplicate GPU detected|invalid device ordinal",
        "Two ranks took the same GPU, or one that is not there.",
        "Call torch.cuda.set_device(LOCAL_RANK), and set process_count_per_instance to the number of GPUs a node.",
    ),
    _kind(
        "no_gpu",
        r"no CUDA-capable device|Found no NVIDIA driver|driver version is insufficient|No CUDA GPUs are available"
        r"|not compiled with CUDA enabled|no kernel image is available|Attempting to deserialize object on a CUDA device",
        "The job asks for a GPU that this machine, its driver or this build of torch does not offer.",
        "Run it on a size with GPUs, with an image whose CUDA fits the driver; on a CPU map storages to 'cpu'.",
    ),
    _kind(
        "device_assert",
        r"device-side assert triggered|Assertion `t >= 0 && t < n_classes`|srcIndex < srcSelectDimSize",
        "A kernel on the GPU stopped at an index out of range; often a label is not below the number of classes.",
        "Check labels and embedding sizes; run once on the CPU, or with CUDA_LAUNCH_BLOCKING=1, for the true line.",
    ),
    _kind(
        "illegal_access",
        r"illegal memory access|misaligned address|unspecified launch failure",
        "A kernel on the GPU reached memory that is not its own.",
        "Run once with CUDA_LAUNCH_BLOCKING=1 for the true line; custom kernels and mixed library versions are suspects.",
    ),
    _kind(
        "gpu_fault",
        r"uncorrectable ECC|fallen off the bus|NVRM: Xid|hardware error",
        "The GPU itself failed.",
        "Run the job again on another node, and have this one replaced.",
    ),
    _kind(
        "uneven_collectives",
        r"Expected to have finished reduction in the prior iteration",
        "DistributedDataParallel waited for gradients of parameters that took no part in the loss.",
        "Let every parameter take part, or pass find_unused_parameters=True.",
    ),
    _kind(
        "one_sample",
        r"Expected more than 1 value per channel when training",
        "The last batch held one sample, of which BatchNorm can take no variance.",
        "Set drop_last=True on the training DataLoader.",
    ),
    _kind(
        "other_weights",
        r"Error\(s\) in loading state_dict|Weights only load failed|invalid magic number|PytorchStreamReader failed",
        "The checkpoint does not fit the model, is damaged, or is not of plain tensors.",
        "Compare architecture and number of classes with those it was saved with; save a state_dict, unwrapped from DDP.",
    ),
    _kind(
        "wrong_shapes",
        r"mat1 and mat2 shapes|size mismatch|must match the size of tensor|to have \d+ channels|shape '.*' is invalid for input"
        r"|Sizes of tensors must match|stack expects each tensor to be equal size",
        "Two tensors do not fit each other in shape.",
        "Compare the shapes that the message names with the data's and the layer's.",
    ),
    _kind(
        "two_devices",
        r"Expected all tensors to be on the same device|Input type .* and weight type .* should be the same",
        "Tensors of one operation lie on two devices, or are of two types.",
        "Move model, inputs and targets to one device; under autocast leave the casting to it.",
    ),
    _kind(
        "not_a_number",
        r"(?i)\bloss (?:is|became) (?:nan|inf)|contains? nan|nan or inf|found inf",
        "The loss or a gradient is no number any more.",
        "Lower the learning rate, clip gradients, and check inputs and labels of the first such step.",
    ),
    _kind(
        "bad_picture",
        r"cannot identify image file|UnidentifiedImageError|image file is truncated|DecompressionBomb|broken (?:PNG|data stream)",
        "A picture of the data cannot be read.",
        "Mend or remove the file that the message names; check all of the data before the training.",
    ),
    _kind(
        "too_many_files",
        r"Too many open files|received 0 items of ancdata",
        "The process had too many files open.",
        "Use fewer DataLoader workers, or torch.multiprocessing.set_sharing_strategy('file_system').",
    ),
    _kind(
        "too_many_threads",
        r"can't start new thread|pthread_create failed|Resource temporarily unavailable",
        "The machine lets the job start no more threads or processes.",
        "Use fewer DataLoader workers, and OMP_NUM_THREADS=1.",
    ),
    _kind(
        "syntax",
        r"^(?:SyntaxError|IndentationError|TabError)\b",
        "Python could not read the script.",
        "Mend the line that is named; a newer syntax needs a newer Python in the environment.",
        bare=False,
    ),
    _kind(
        "network",
        r"Max retries exceeded|Temporary failure in name resolution|Name or service not known|getaddrinfo failed"
        r"|Network is unreachable|URLError|Read timed out",
        "A download or a service could not be reached from the job.",
        "Make what it fetches an input of the job; nodes in a private network reach only what that network lets them.",
    ),
    _kind(
        "refused",
        r"\b40[13] Client Error|AuthenticationFailed|AuthorizationFailure|invalid_client|Unauthorized for url",
        "A service refused the job's sign-in.",
        "Give the compute's identity the role that it needs there, or renew the token that the job is given.",
    ),
    _kind(
        "worker_died",
        r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) (?:exited unexpectedly|is killed by signal)",
        "A DataLoader worker died without a word; often the machine's memory has run out.",
        "Use num_workers 0 once to see its own error, or fewer workers.",
    ),
    _kind(
        "mpi_abort",
        r"MPI_ABORT was (?:invoked|called) (?:on|by) (?:process )?(?:rank )?(?P<mpi_rank>\d+)"
        r"|application called MPI_Abort\(.*process (?P<mpich_rank>\d+)",
        "A rank ended all others by MPI_Abort.",
        "Look at what that rank wrote before.",
        Weight.LIKELY,
    ),
    _kind(
        "mpi_killed",
        r"process rank (?P<mpi_rank>\d+) with PID \d+ on node (?P<node>\S+) exited on signal (?P<signal>\d+)",
        "mpirun saw a rank end by a signal.",
        "Look at what that rank wrote before; signal 9 often means that the machine's memory has run out.",
        Weight.LIKELY,
    ),
    _kind(
        "segfault",
        r"(?i)\bsegmentation fault\b|signal(?: code)?: ?11\b",
        "A library crashed (segmentation fault): the fault is in compiled code, not in Python.",
        "Run with PYTHONFAULTHANDLER=1 for the Python line; mixed versions of compiled packages are the usual suspects.",
    ),
    _kind(
        "abort",
        r"Fatal Python error: (?P<what>.+)|terminate called after throwing an instance of '(?P<cpp>[^']+)'|Assertion [`'].+ failed",
        "A library stopped the process (abort).",
        "Look at the lines above for what it complained of.",
        Weight.LIKELY,
    ),
    _kind(
        "interrupted",
        r"KeyboardInterrupt|SignalException|^Interrupted\b",
        "The process was interrupted from outside.",
        "Look who ended it: an operator, a launcher that ends the others, or a scheduler.",
        Weight.BYSTANDER,
    ),
    _kind(
        "peer_lost",
        r"lost the connection to another rank.*[Tt]he cause is rank (?P<of>\d+)",
        "This rank only lost the connection to rank {of}.",
        "Look at what rank {of} wrote, and at how it ended.",
        Weight.BYSTANDER,
    ),
    _kind(
        "peer_lost",
        r"(?i)connection (?:closed|reset) by peer|connection was (?:likely )?closed|socket closed|broken ?pipe"
        r"|remote process exited"
        r"|ncclRemoteError|ncclSystemError|NCCL communicator was aborted|process group has been (?:destroyed|aborted)|EOFError"
        r"|application timeout caused pair closure|failed to recv, got 0 bytes|connectionreset|connectfullmesh|connection refused"
        r"|failed to connect to|DistNetworkError|shutDown the TCPStore|Aborted by (?:another|peer)|ConnectionAbortedError"
        r"|\[Errno (?:32|104|111)\]|sending process \d+ closing signal|closing process \d+ via signal",
        "This rank only lost the connection to another that had ended.",
        "Look at the rank that ended first.",
        Weight.BYSTANDER,
    ),
    _kind(
        "launcher",
        r"ChildFailedError|ProcessExitedException|ProcessRaisedException|CalledProcessError|SignalException"
        r"|failed \(exitcode: -?\d+\)|mpirun (?:detected|has exited)|Primary job terminated normally|non-zero (?:status|exit)",
        "The launcher says only that a process of its own failed.",
        "Look at that process's own lines.",
        Weight.WRAPPER,
    ),
)
"""In this order: the first whose sign is found names the kind."""

EXCEPTION = _kind(
    "exception", "", "The script raised an exception.", "Look at the line of the code that is named.", Weight.CAUSE
)
UNKNOWN = _kind(
    "unknown",
    "",
    "Nothing in the logs says why; their last lines are shown.",
    "Run it again with python -u and PYTHONFAULTHANDLER=1, or read the whole log.",
    Weight.WRAPPER,
)

SERVICE: tuple[Kind, ...] = (
    _kind(
        "time_limit",
        r"(?i)time limit|timed out|time-?out|exceeded the (?:maximum|max)|maximum (?:run )?duration",
        "The job ran into its time limit and was ended.",
        "Raise limits.timeout in the job file, or start from the newest checkpoint.",
    ),
    _kind(
        "preempted",
        r"(?i)preempt|evict|low.?priority|spot|node (?:was|is) (?:lost|unusable|deallocated)|unhealthy node",
        "The node was taken away.",
        "Run it again from its newest checkpoint, on dedicated nodes where that must not happen.",
    ),
    _kind(
        "image",
        r"(?i)image (?:build|pull)|failed to (?:build|pull)|environment (?:build|image)|docker|manifest unknown",
        "The environment's image could not be built or fetched.",
        "Read the image build's own log; build the environment by itself first.",
    ),
    _kind(
        "supervisor",
        r"supervisor .* ended unexpectedly",
        "The process that looked after the job on this machine is gone, and its ranks with it.",
        "Look at system_logs/supervisor.log; memory, a reboot and a kill are the usual causes. Launch it again.",
    ),
    _kind(
        "data",
        r"(?i)mount|datastore|data asset|could not (?:fetch|download)|download",
        "The job's data could not be brought to it.",
        "Check the inputs of the job file, and that the compute's identity may read them.",
    ),
)
"""What the workspace itself says of a job that failed; the logs may know nothing of it."""


def kind_of(text: str, bare: bool = False) -> tuple[Kind, re.Match[str]] | None:
    """The kind whose sign a text has: an exception's, or with `bare` a line that stands by itself."""
    for kind in KINDS:
        if (kind.bare or not bare) and (found := kind.sign.search(text)):
            return kind, found
    return None


_BY_SIGNAL: dict[int, tuple[str, str, Weight]] = {
    signal.SIGKILL: ("killed", "killed; likely the machine has run out of memory", Weight.LIKELY),
    signal.SIGSEGV: ("segfault", "crashed in compiled code (segmentation fault)", Weight.LIKELY),
    signal.SIGABRT: ("abort", "stopped by a library (abort)", Weight.LIKELY),
    signal.SIGBUS: ("shared_memory", "ended by a bus error; likely shared memory has run out", Weight.LIKELY),
    signal.SIGILL: ("illegal_instruction", "it used an instruction that this CPU lacks", Weight.LIKELY),
    signal.SIGFPE: ("arithmetic", "stopped by an arithmetic fault, as a division by zero", Weight.LIKELY),
    signal.SIGTERM: (
        "terminated",
        "told to end (SIGTERM), as a launcher does when another rank has failed",
        Weight.BYSTANDER,
    ),
    signal.SIGINT: ("interrupted", "interrupted (SIGINT)", Weight.BYSTANDER),
    signal.SIGXCPU: ("time_limit", "it ran into a limit on CPU time", Weight.LIKELY),
    signal.SIGPIPE: ("peer_lost", "it wrote to a pipe that nobody read any more", Weight.BYSTANDER),
}
_BY_CODE: dict[int, tuple[str, str, Weight]] = {
    1: ("exception", "failed", Weight.WRAPPER),
    2: ("wrong_arguments", "failed; by custom 2 means wrong arguments", Weight.WRAPPER),
    124: ("time_limit", "it ran into a time limit", Weight.LIKELY),
    126: ("not_executable", "its command cannot be executed", Weight.LIKELY),
    127: ("missing_command", "its command was not found", Weight.LIKELY),
}
STEPS: dict[str, str] = {
    "killed": "Use a smaller batch, fewer DataLoader workers or fewer ranks a node, or take a size with more memory.",
    "illegal_instruction": "Use packages built for this CPU, or another size of machine.",
    "arithmetic": "Run with PYTHONFAULTHANDLER=1 for the Python line.",
    "terminated": "Look at the rank that failed first, or at who ended the job.",
}


def signal_of(exit_code: int) -> str | None:
    """The name of the signal that an exit code stands for (128 + N, or -N as Python has it), None for none."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    return signal.Signals(number).name if number in set(signal.Signals) else None


def exit_words(exit_code: int) -> tuple[str, str, Weight]:
    """The kind that an exit code suggests, the code in words, and how much it tells."""
    if name := signal_of(exit_code):
        kind, words, weight = _BY_SIGNAL.get(signal.Signals[name], ("signal", f"ended by {name}", Weight.LIKELY))
        return kind, words, weight
    return _BY_CODE.get(exit_code, ("exception", "failed", Weight.WRAPPER))


def step_of(kind: str) -> str:
    """What to do next about a kind that an exit code alone tells."""
    if kind in STEPS:
        return STEPS[kind]
    return next((one.next_step for one in (*KINDS, *SERVICE) if one.id == kind), EXCEPTION.next_step)
