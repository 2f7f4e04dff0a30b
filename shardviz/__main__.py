"""`python -m shardviz` is the command `shardviz`."""

from shardviz.cli.verbs import main

if __name__ == "__main__":
    main()
