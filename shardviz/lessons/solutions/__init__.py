"""The solutions, one file each, kept apart from the exercises: nothing here is used to check an answer."""
