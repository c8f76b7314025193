"""English statements by rule: a question's yes and no, a statement's opposite, whether two contradict each other."""
