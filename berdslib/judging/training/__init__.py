"""How judges are trained: pairs, recipes, loops; no judge needs any of it to judge."""
