"""Rules for English statements: the two sides of a question, the negation of a statement, and contradiction."""

from berdslib.statements.negation import negate as negate
from berdslib.statements.negation import two_sides as two_sides
