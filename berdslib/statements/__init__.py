"""English statements by rule: what a question's two sides say, a statement's opposite, whether two contradict."""

from berdslib.statements.negation import negate as negate
from berdslib.statements.negation import two_sides as two_sides
