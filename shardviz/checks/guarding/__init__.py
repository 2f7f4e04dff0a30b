"""What the guard is made of: what one rank says, what all ranks say together, contents, the forward pass, the report."""
