"""Settings of gunicorn under a scoring server that have no flag in every version; unknown ones are skipped by gunicorn."""

# Its control socket has one path for all servers of a user, and nobody here speaks to it.
control_socket_disable = True
