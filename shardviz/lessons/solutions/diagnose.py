"""Diagnose: what each symptom comes from."""

from shardviz.lessons.exercises.diagnose import AILMENTS


def diagnose(given):
    """Look the causes up in the list of ailments, and name them by their letters."""
    causes = {ailment.symptom: ailment.cause for ailment in AILMENTS}
    letters = {cause: letter for letter, cause in given["causes"].items()}
    return {number: letters[causes[symptom]] for number, symptom in given["symptoms"].items()}
