"""The table of actions: what each is called, its keys, where it applies, its danger and its command twin."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    """One act. `id` is also the method (`action_<id>`) of the screen or the app that does it.

    `where` are the places it applies; `app` is everywhere. `command` is the same act as a command line. `brief` is what the
    key line says; an empty one keeps it out of that line, not out of the help. `priority` keys win over a focused field.
    `needs` is what a workspace's `capabilities` call it. What is to `keep` stays in the key line where others have no room.
    """

    id: str
    title: str
    keys: str
    where: tuple[str, ...]
    brief: str = ""
    command: str = ""
    changes: bool = False
    priority: bool = False
    needs: str = ""
    keep: bool = False

    @property
    def key_label(self) -> str:
        """The first key as the key line writes it."""
        first = self.keys.split(",")[0]
        return {
            "question_mark": "?",
            "slash": "/",
            "escape": "esc",
            "left_square_bracket": "[",
            "right_square_bracket": "]",
            "ctrl+p": "^p",
        }.get(first, first.replace("ctrl+", "^"))


LISTS = ("jobs", "clusters", "models", "endpoints")

ACTIONS: tuple[Action, ...] = (
    Action("open", "Open what is under the cursor", "enter", (*LISTS, "cluster", "templates"), "open"),
    Action("logs", "Follow the log", "l", ("jobs", "job"), "logs", "footplate logs NAME --follow"),
    Action("metrics", "Show the metrics", "m", ("jobs", "job"), "metrics", "footplate metrics NAME"),
    Action("overview", "Show all that is known of the job", "o", ("job",), "overview", "footplate job NAME"),
    Action(
        "children",
        "Show the trials of a sweep, the steps of a pipeline",
        "t",
        ("job",),
        "trials",
        "footplate children NAME",
    ),
    Action(
        "next_file", "Next log file (rank)", "right_square_bracket", ("job",), "rank", "footplate logs NAME --file PATH"
    ),
    Action("previous_file", "Previous log file (rank)", "left_square_bracket", ("job",)),
    Action("find", "Search in the log", "slash", ("job",), "search"),
    Action("clone", "Launch the job again, with changes", "c", ("jobs", "job"), "clone", needs="job_file"),
    Action("cancel", "Cancel the job", "x", ("jobs", "job"), "cancel", "footplate cancel NAME", True, needs="cancel"),
    Action(
        "deploy",
        "Deploy the model",
        "d",
        ("models",),
        "deploy",
        "footplate deploy --model M:1 --endpoint E",
        True,
        needs="deploy",
    ),
    Action(
        "delete",
        "Delete the model",
        "x",
        ("models",),
        "delete",
        "footplate model delete NAME:VERSION",
        True,
        needs="delete_model",
    ),
    Action(
        "start",
        "Start a stopped endpoint",
        "u",
        ("endpoints",),
        "start",
        "footplate endpoint start NAME",
        True,
        needs="start_endpoint",
    ),
    Action(
        "traffic",
        "Share out the traffic among the deployments",
        "T",
        ("endpoints", "monitor"),
        "traffic",
        "footplate traffic ENDPOINT blue=90 green=10",
        True,
        needs="set_traffic",
    ),
    Action(
        "monitor",
        "Requests, errors and latency over the last hour",
        "m",
        ("endpoints",),
        "monitor",
        "footplate endpoint monitor NAME",
    ),
    Action(
        "server_log", "Show the deployment's log", "l", ("endpoints", "monitor"), "log", "footplate endpoint logs NAME"
    ),
    Action("endpoint_keys", "Keys: show, copy, make anew", "K", ("endpoints",), "keys", "footplate endpoint keys NAME"),
    Action(
        "scale",
        "Run more or fewer instances of a deployment",
        "i",
        ("endpoints",),
        "instances",
        "footplate endpoint scale NAME --deployment D --instances N",
        True,
        needs="scale",
    ),
    Action(
        "mirror",
        "Send copies of requests to a deployment",
        "M",
        ("endpoints",),
        "mirror",
        "footplate traffic ENDPOINT --mirror green=10",
        True,
        needs="set_mirror",
    ),
    Action(
        "delete",
        "Delete the endpoint, or the deployment",
        "x",
        ("endpoints",),
        "delete",
        "footplate endpoint delete NAME",
        True,
    ),
    Action("nodes", "The nodes that are there now", "o", ("cluster",), "nodes", "footplate cluster show NAME"),
    Action("sizes", "The sizes that a cluster can have", "z", ("cluster",), "sizes", "footplate cluster sizes"),
    Action("quota", "What may be used, and what is", "u", ("cluster",), "quota", "footplate quota"),
    Action(
        "create",
        "New cluster",
        "n",
        ("clusters",),
        "new",
        "footplate cluster create NAME --size S",
        True,
        needs="create_cluster",
    ),
    Action(
        "edit",
        "Nodes and idle time of the cluster",
        "e",
        ("clusters", "cluster"),
        "edit",
        "footplate cluster update NAME --max-instances N",
        True,
        needs="update_cluster",
    ),
    Action(
        "delete",
        "Delete the cluster",
        "x",
        ("clusters", "cluster"),
        "delete",
        "footplate cluster delete NAME",
        True,
        needs="delete_cluster",
    ),
    Action(
        "jobs_there", "The jobs on the cluster", "J", ("clusters", "cluster"), "jobs", "footplate jobs --filter NAME"
    ),
    Action(
        "filter", "Filter: words, !word, status:failed", "slash", ("jobs",), "filter", "footplate jobs --filter EXPR"
    ),
    Action("filter", "Filter the list: words, !word, status:failed", "slash", LISTS[1:], "filter"),
    Action("faults", "Only what is in trouble", "f", LISTS, "faults"),
    Action("demo", "Run the whole line on drawn birds", "d", ("jobs",), "demo", "footplate demo", True, needs="demo"),
    Action(
        "register",
        "Register the model that the job wrote",
        "R",
        ("jobs", "job"),
        "register",
        "footplate register NAME --model M",
        True,
        needs="register",
    ),
    Action(
        "archive",
        "Archive: hide from the lists, or show again",
        "a",
        ("jobs", "job"),
        "archive",
        "footplate archive NAME",
        True,
        needs="archive",
    ),
    Action("archived", "Show archived jobs too, or no more", "A", ("jobs",), "archived"),
    Action(
        "edit",
        "Display name and tags",
        "e",
        ("jobs", "job"),
        "tags",
        "footplate update NAME --tag K=V",
        True,
        needs="update_job",
    ),
    Action(
        "download",
        "Download what the job wrote, or the model",
        "w",
        ("jobs", "job", "models"),
        "download",
        "footplate download NAME",
        needs="download",
    ),
    Action("copy", "Copy the studio link, else the name", "y", ("job",), "copy"),
    Action("copy", "Copy the name", "y", LISTS, ""),
    Action(
        "launch",
        "Launch the job",
        "f5,ctrl+enter,ctrl+j",
        ("launch", "pipeline"),
        "launch",
        "footplate launch FILE",
        True,
        True,
        "submit",
    ),
    Action(
        "dry_run",
        "Write down what would run",
        "ctrl+d",
        ("launch", "pipeline"),
        "dry run",
        "footplate launch FILE --dry-run",
        priority=True,
    ),
    Action("edit", "Open the file in $VISUAL or $EDITOR", "ctrl+e", ("launch", "pipeline"), "editor", priority=True),
    Action("pick", "Choose from a list: a cluster, data, a path", "f2", ("launch", "pipeline"), "pick"),
    Action("view", "What will run on the whole screen, and back", "f3", ("launch", "pipeline"), "what runs"),
    Action("fields", "To the pipeline's fields, and back to its steps", "f4", ("pipeline",), "fields"),
    Action("next_fault", "Go to the next field with a fault", "f8", ("launch", "pipeline"), "next fault", keep=True),
    Action(
        "save_template", "Save as a new template", "ctrl+s", ("launch", "pipeline"), "save", priority=True, keep=True
    ),
    Action("send", "Send the picture", "enter,s", ("invoke",), "send", "footplate invoke ENDPOINT IMAGE"),
    Action("pick", "Pick a picture", "o", ("invoke",), "pick"),
    Action("path", "Type a picture's path", "slash", ("invoke",), "path"),
    Action("next_picture", "Next picture of the folder", "n,right", ("invoke",), "next"),
    Action("raw", "The raw answer", "r", ("invoke",), "raw"),
    Action("previous_picture", "Previous picture of the folder", "p,left", ("invoke",), "previous"),
    Action("next_endpoint", "Next endpoint", "e", ("invoke",), "endpoint"),
    Action("refresh", "Look again now", "r", (*LISTS, "cluster", "monitor")),
    Action(
        "back",
        "One step back",
        "escape",
        ("job", "cluster", "monitor", "launch", "pipeline", "invoke", "templates"),
        "back",
        keep=True,
    ),
    Action("go('jobs')", "Jobs", "1", ("app",)),
    Action("go('clusters')", "Clusters", "2", ("app",)),
    Action("go('models')", "Models", "3", ("app",)),
    Action("go('endpoints')", "Endpoints", "4", ("app",)),
    Action("go('launch')", "Launch", "5", ("app",)),
    Action("go('invoke')", "Invoke", "6", ("app",)),
    Action("command_palette", "Everything by name", "ctrl+p", ("app",)),
    Action("help", "Help for this screen", "question_mark,f1", ("app",)),
    Action("mark", "Mark the job, for acts on several", "space", ("jobs",)),
    Action("leave", "Leave; jobs and endpoints go on", "q", LISTS),
)


def actions(where: str) -> list[Action]:
    """The actions of one place, in the table's order."""
    return [action for action in ACTIONS if where in action.where]
