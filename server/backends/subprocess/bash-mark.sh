# Read by a bash before its command (BASH_ENV): the mark as a limit of the shell, and so of all that it starts; see marked-command.js.
ulimit -R "$TOOLWRIGHT_TREE" 2> /dev/null
unset BASH_ENV
