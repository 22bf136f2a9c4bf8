"""One file per API; its docstring says the versions served. A handler touches neither files nor sockets."""
