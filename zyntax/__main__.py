"""`python -m zyntax`."""

from zyntax.main import main

if __name__ == "__main__":
    main()
