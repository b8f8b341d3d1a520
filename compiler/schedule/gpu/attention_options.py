import os


def opt(name: str, default: int) -> int:
    return int(dict(x.split("=") for x in os.environ.get("ZATT", "").split(",") if x).get(name, default))
