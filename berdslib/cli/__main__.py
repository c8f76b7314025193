"""`python -m berdslib.cli`."""

from berdslib.cli import main

if __name__ == "__main__":
    main()
