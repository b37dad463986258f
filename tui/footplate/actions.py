"""The table of actions: what each is called, its keys, where it applies, its danger and its command twin."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    """One act. `id` is also the method (`action_<id>`) of the screen or the app that does it.

    `where` are the places it applies; `app` is everywhere. `command` is the same act as a command line. `brief` is what the
    key line says; an empty one keeps it out of that line, not out of the help. `priority` keys win over a focused field.
    `needs` is what a workspace's `capabilities` call it.
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
    Action("open", "Open what is under the cursor", "enter", (*LISTS, "templates"), "open"),
    Action("logs", "Follow the log", "l", ("jobs", "job"), "logs", "footplate logs NAME --follow"),
    Action("metrics", "Show the metrics", "m", ("jobs", "job"), "metrics", "footplate metrics NAME"),
    Action("overview", "Show all that is known of the job", "o", ("job",), "overview", "footplate job NAME"),
    Action("children", "Show the trials of a sweep, the steps of a pipeline", "t", ("job",), "trials"),
    Action(
        "next_file", "Next log file (rank)", "right_square_bracket", ("job",), "rank", "footplate logs NAME --file PATH"
    ),
    Action("previous_file", "Previous log file (rank)", "left_square_bracket", ("job",)),
    Action("find", "Search in the log", "slash", ("job",), "search"),
    Action("clone", "Launch the job again, with changes", "c", ("jobs", "job"), "clone", needs="job_file"),
    Action("cancel", "Cancel the job", "x", ("jobs", "job"), "cancel", "footplate cancel NAME", True),
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
        "delete",
        "Delete the endpoint",
        "x",
        ("endpoints",),
        "delete",
        "footplate endpoint delete NAME",
        True,
        needs="delete_endpoint",
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
    Action("server_log", "Show the deployment's log", "l", ("endpoints",), "log", "footplate endpoint logs NAME"),
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
    Action("next_fault", "Go to the next field with a fault", "f8", ("launch", "pipeline"), "next fault"),
    Action("save_template", "Save as a new template", "ctrl+s", ("launch", "pipeline"), "save", priority=True),
    Action("send", "Send the picture", "enter,s", ("invoke",), "send", "footplate invoke ENDPOINT IMAGE"),
    Action("pick", "Pick a picture", "o", ("invoke",), "pick"),
    Action("path", "Type a picture's path", "slash", ("invoke",), "path"),
    Action("next_picture", "Next picture of the folder", "n,right", ("invoke",), "next"),
    Action("previous_picture", "Previous picture of the folder", "p,left", ("invoke",), "previous"),
    Action("next_endpoint", "Next endpoint", "e", ("invoke",), "endpoint"),
    Action("raw", "The raw answer", "r", ("invoke",), "raw"),
    Action("refresh", "Look again now", "r", LISTS),
    Action("back", "One step back", "escape", ("job", "launch", "pipeline", "invoke", "templates"), "back"),
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
