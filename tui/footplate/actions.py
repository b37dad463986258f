"""The table of actions: what each is called, its keys, where it applies, its danger and its command twin."""

from __future__ import annotations

from dataclasses import dataclass

_KEY_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "escape": "esc",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "ampersand": "&",
    "vertical_line": "|",
    "apostrophe": "'",
    "exclamation_mark": "!",
    "plus": "+",
    "minus": "-",
}


def key_name(key: str) -> str:
    """A key as a key line and the help write it."""
    return _KEY_NAMES.get(key, key.replace("ctrl+", "^"))


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
        return key_name(self.keys.split(",")[0])


LISTS = ("jobs", "clusters", "models", "endpoints")

ACTIONS: tuple[Action, ...] = (
    Action("open", "Open what is under the cursor", "enter", (*LISTS, "cluster", "templates", "alerts"), "open"),
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
    Action("all_ranks", "The logs of all ranks interleaved, and back to one", "a", ("ranks",), "all ranks"),
    Action("solo", "Only this rank of all, and all again", "s", ("ranks",), "solo"),
    Action("mute", "Leave this rank out of all, or take it in again", "M", ("ranks",), "mute"),
    Action(
        "first_error", "To the failure, else the first error", "e", ("ranks",), "first error", "footplate failure NAME"
    ),
    Action("system_log", "To what the service wrote, and back", "i", ("ranks",), "system log"),
    Action("files", "To the list of files, and back", "f", ("ranks",), "files"),
    Action("to_line", "To the line in the log of that rank", "enter", ("failure",), "to the line"),
    Action("to_moment", "The same moment in the logs of all ranks", "E", ("failure",), "in all ranks"),
    Action("move(-1)", "Up a row", "up,k", ("log",)),
    Action("move(1)", "Down a row", "down,j", ("log",)),
    Action("page(-1)", "Up a page", "pageup", ("log",)),
    Action("page(1)", "Down a page", "pagedown,space", ("log",)),
    Action("top", "To the beginning", "g,home", ("log",)),
    Action("follow", "To the end, and follow it", "G,end", ("log",), "follow"),
    Action("sideways(-1)", "To the left, where lines are not wrapped", "left", ("log",)),
    Action("sideways(1)", "To the right, where lines are not wrapped", "right", ("log",)),
    Action("search", "Search: text or a regular expression", "slash", ("log",), "search"),
    Action("next_match(1)", "Next match", "n", ("log",), "next"),
    Action("next_match(-1)", "Match before", "N", ("log",)),
    Action("narrow", "Only the lines that match; ! before it: all others", "ampersand", ("log",), "filter"),
    Action("context(1)", "One line more before and after each that is filtered", "plus", ("log",)),
    Action("context(-1)", "One line less", "minus", ("log",)),
    Action("level", "Only from info, warning or error up, and all again", "L", ("log",), "level"),
    Action("window", "Only the last minute, 5, 15 or 60 minutes, and all again", "I", ("log",), "window"),
    Action("wrap", "Wrap long lines, or cut them at the edge", "w", ("log",), "wrap"),
    Action("times", "When each line was written, or arrived", "T", ("log",), "times"),
    Action("go_to", "Go to a line or a time: 1200, 14:02, -5m", "ctrl+g", ("log",), "go to"),
    Action("choose", "Choose a line; again: all from there on", "v", ("log",), "select"),
    Action("copy", "Copy what is chosen, else what is on screen", "y", ("log",), "copy"),
    Action("copy_all", "Copy the whole log", "Y", ("log",)),
    Action("save", "Save the log as a file, byte for byte", "S", ("log",), "save"),
    Action("pager", "Open in $PAGER at this line: every byte, secrets too", "vertical_line", ("log",), "pager"),
    Action("mark", "Mark this line for later, or no more", "b", ("log",), "mark"),
    Action("next_mark", "To the next marked line", "apostrophe", ("log",)),
    Action("whole_line", "The whole of a line that is cut", "enter", ("log",)),
    Action("raw", "Raw: escape sequences and secrets too, as they are", "V", ("log",), "raw"),
    Action("full", "The log on the whole screen, and back", "z", ("log",), "full screen"),
    Action("step_back", "One step back: from what is selected, full screen, search, filters", "escape", ("log",)),
    Action("open_trial", "Open the trial", "enter", ("trials",), "open"),
    Action("mark", "Mark the trial, for acts on several", "space", ("trials",)),
    Action("plot", "Plot: best so far, then each parameter against the metric", "p", ("trials",), "plot"),
    Action("compare", "The charts of the marked trials over each other", "v", ("trials",), "compare"),
    Action(
        "cancel_trial",
        "Cancel the trial under the cursor, or the marked ones",
        "X",
        ("trials",),
        "cancel trial",
        "footplate cancel NAME",
        True,
        needs="cancel",
    ),
    Action("cursor(-1)", "Read the value before, in all charts", "left", ("chart",), "read"),
    Action("cursor(1)", "Read the next value, in all charts", "right", ("chart",)),
    Action("cursor(-10)", "Read ten values back", "shift+left", ("chart",)),
    Action("cursor(10)", "Read ten values on", "shift+right", ("chart",)),
    Action("cursor_end(-1)", "Read the first value", "home", ("chart",)),
    Action("cursor_end(1)", "Read the last value", "end", ("chart",)),
    Action("select(-1)", "The chart before", "up", ("chart",)),
    Action("select(1)", "The next chart", "down", ("chart",), "chart"),
    Action("page(-1)", "The page of charts before", "pageup", ("chart",)),
    Action("page(1)", "The next page of charts", "pagedown", ("chart",)),
    Action("full", "This chart alone, and all again", "enter", ("chart",), "alone"),
    Action("zoom(1)", "Zoom in along the x axis, round the cursor", "plus,equals_sign", ("chart",), "zoom"),
    Action("zoom(-1)", "Zoom out", "minus", ("chart",)),
    Action("whole", "All of the x axis", "0", ("chart",)),
    Action("smooth", "Smoothing: none, 0.6, 0.9, 0.97", "s", ("chart",), "smooth"),
    Action("log", "Logarithmic y axis, and linear again", "L", ("chart",), "log"),
    Action("axis", "Over steps, or over time since the start", "i", ("chart",), "step/time"),
    Action(
        "filter",
        "Only charts whose names match a regular expression",
        "slash",
        ("charts",),
        "filter",
        "footplate metrics NAME --metric REGEX",
    ),
    Action("group", "What the script logged, or what the job uses of the machine", "u", ("charts",), "usage"),
    Action("pairs", "Train and val of a metric on one chart, or each on its own", "p", ("charts",), "pairs"),
    Action(
        "export",
        "Save this chart as a picture in the current folder",
        "E",
        ("charts",),
        "save",
        "footplate metrics NAME --metric M --svg FILE",
    ),
    Action("leave", "One step back: cursor, zoom, chart alone, filter", "escape", ("charts",)),
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
    Action("pick", "Choose from a list: a cluster, data, a path", "f2", ("launch", "pipeline"), "pick"),
    Action("view", "What will run on the whole screen, and back", "f3", ("launch", "pipeline"), "runs"),
    Action("fields", "To the pipeline's fields, and back to its steps", "f4", ("pipeline",), "fields"),
    Action(
        "dry_run",
        "Write down what would run",
        "ctrl+d",
        ("launch", "pipeline"),
        "dry run",
        "footplate launch FILE --dry-run",
        priority=True,
    ),
    Action("edit", "Open the file in $VISUAL or $EDITOR", "ctrl+e", ("launch", "pipeline"), "edit", priority=True),
    Action("next_fault", "Go to the next field with a fault", "f8", ("launch", "pipeline"), "fault", keep=True),
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
    Action(
        "watch",
        "Watch it: be told how it ends, or that it is in trouble; or no more",
        "W",
        ("jobs", "job", "clusters", "cluster", "endpoints"),
        "watch",
        "footplate alerts --watch NAME",
    ),
    Action(
        "rehearse",
        "Rehearse a bad day: a node is preempted, a rank killed, the quota full",
        "B",
        ("job", "cluster"),
        "rehearse",
        "footplate rehearse NAME ACT",
        True,
        needs="rehearse",
    ),
    Action("watch", "Watch it no more", "W", ("alerts",), "watch no more", "footplate alerts --unwatch NAME"),
    Action("other_table", "To the other table", "tab", ("alerts",), "other table"),
    Action("refresh", "Look again now", "r", (*LISTS, "cluster", "monitor")),
    Action(
        "back",
        "One step back",
        "escape",
        ("job", "cluster", "monitor", "launch", "pipeline", "invoke", "templates", "alerts", "compare"),
        "back",
        keep=True,
    ),
    Action(
        "compare",
        "Compare the marked jobs: what differs, and their charts over each other",
        "v",
        ("jobs",),
        "compare",
        "footplate metrics NAME NAME",
    ),
    Action("go('jobs')", "Jobs", "1", ("app",)),
    Action("go('clusters')", "Clusters", "2", ("app",)),
    Action("go('models')", "Models", "3", ("app",)),
    Action("go('endpoints')", "Endpoints", "4", ("app",)),
    Action("go('launch')", "Launch", "5", ("app",)),
    Action("go('invoke')", "Invoke", "6", ("app",)),
    Action("command_palette", "Everything by name", "ctrl+p", ("app",)),
    Action("alerts", "What was told, and what is watched", "exclamation_mark", ("app",), command="footplate alerts"),
    Action("help", "Help for this screen", "question_mark,f1", ("app",)),
    Action("mark", "Mark the job, for acts on several", "space", ("jobs",)),
    Action("leave", "Leave; jobs and endpoints go on", "q", LISTS),
)


def actions(where: str) -> list[Action]:
    """The actions of one place, in the table's order."""
    return [action for action in ACTIONS if where in action.where]
