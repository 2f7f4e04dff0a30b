"""Real ranks: ipyparallel engines joined to one process group, and what runs inside them."""
