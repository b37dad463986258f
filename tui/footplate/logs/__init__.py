"""The log engine: what makes raw log bytes safe, and where each line of a log file begins. Knows nothing of Textual."""
