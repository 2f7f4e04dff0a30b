"""The ground floor: the question (a spec), its layout and its stories, in plain Python. No torch, no matplotlib."""
