"""What padding does to a gradient: leave it out, by its number."""


def local_gradients(rows, held, w, b):
    """Only the first `held` rows are real; a row of zeros would add b to db."""
    real = rows[:held]
    dw = sum((w * x + b) * x for x in real)
    db = sum(w * x + b for x in real)
    return dw, db
