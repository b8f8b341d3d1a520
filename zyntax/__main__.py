"""`python -m zyntax`."""

from zyntax_lang import main

if __name__ == "__main__":
    main()
