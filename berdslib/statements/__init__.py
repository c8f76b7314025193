"""English statements by rule: yes and no of a question, the opposite of a statement, whether two contradict each other."""
