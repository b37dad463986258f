"""The log engine: copies of logs that lie elsewhere, where lines begin, what may be shown of them. Knows nothing of Textual."""
