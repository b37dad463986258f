"""The console's colours: each is one of the 256 of a plain terminal, so that SSH without COLORTERM shows the same."""

from textual.theme import Theme

THEME = Theme(
    name="footplate",
    primary="#5f87af",
    secondary="#87afaf",
    accent="#5fafd7",
    foreground="#d0d0d0",
    background="#121212",
    surface="#1c1c1c",
    panel="#262626",
    boost="#303030",
    success="#87af5f",
    warning="#d7af5f",
    error="#d75f5f",
    dark=True,
    variables={
        "text-muted": "#8a8a8a",
        "text-accent": "#87d7ff",
        "text-success": "#afd787",
        "text-warning": "#ffd787",
        "text-error": "#ff8787",
        "primary-muted": "#1c3a52",
        "scrollbar": "#3a3a3a",
        "scrollbar-background": "#121212",
        "scrollbar-corner-color": "#121212",
        "block-cursor-background": "#5fafd7",
        "footer-key-foreground": "#5fafd7",
    },
)
