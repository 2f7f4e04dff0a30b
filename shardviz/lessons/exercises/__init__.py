"""The exercises, one file each: its words, its cases, the wrong answers that people give."""
